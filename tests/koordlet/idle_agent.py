"""An agent of a host of plain files, which nothing runs."""

import contextlib

from koordlet.agent import Agent
from koordlet.node_observer import NodeObserver
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import PlainHost


@contextlib.contextmanager
def idle_agent(root, registry, **settings):
    """Make a host with usage of the node, and an agent for it; close its files."""
    PlainHost(root).set_node(1000, 1 << 30)
    made = Agent(KoordletSettings(node_name="n1", state_dir="", **settings), NodeObserver(root, 64), registry)
    with contextlib.closing(made.observer.collector):
        yield made

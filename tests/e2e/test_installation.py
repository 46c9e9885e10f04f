"""The choice of the agent's pod, in a cluster of several nodes."""

import pathlib

import pytest

from e2e.support.installation import Suite
from tools.localcluster.access import Cluster


class Listed(Cluster):
    """A cluster with nodes `a` and `b`, and the pods of a test."""

    pods = ()

    def get(self, *words):
        if words[0] == "nodes":
            return {"items": [{"metadata": {"name": name}} for name in ("a", "b")]}
        return {"items": list(self.pods)}


def suite(*pods):
    nowhere = pathlib.Path("/nowhere")
    cluster = Listed("existing", nowhere, nowhere, nowhere)
    object.__setattr__(cluster, "pods", pods)
    return Suite(cluster, {})


def pod(name, node, **metadata):
    return {"metadata": {"name": name, **metadata}, "spec": {"nodeName": node} if node else {}}


def test_the_agent_is_the_one_of_the_first_node_and_none_that_ends():
    ending = pod("ending", "a", deletionTimestamp="2026-01-01T00:00:00Z")
    assert suite(pod("other", "b"), ending, pod("own", "a"), pod("waits", None)).agent_pod() == "own"


@pytest.mark.parametrize("pods", [(), (pod("other", "b"),), (pod("one", "a"), pod("two", "a"))])
def test_no_agent_or_two_of_the_node_are_an_error(pods):
    with pytest.raises(LookupError, match="node a has"):
        suite(*pods).agent_pod()

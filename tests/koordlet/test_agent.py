"""The agent's pauses between reports."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from koordlet.agent import Agent
from koordlet.node_observer import NodeObserver
from koordlet.report import writer
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import PlainHost


async def test_after_a_refusal_the_next_report_waits_as_long_as_the_apiserver_asks(tmp_path):
    host = PlainHost(tmp_path / "host")
    host.set_node(1000, 1 << 30)
    settings = KoordletSettings(node_name="n1", state_dir="")
    agent = Agent(settings, NodeObserver(Path(tmp_path / "host"), 64), CollectorRegistry())
    agent._note(writer.Sent(writer.Outcome.REFUSED, problem="429", retry_after_seconds=50.0), None, 1000.0, 60.0)
    assert not agent._schedule.is_check_due(1049.9)
    assert agent._schedule.is_check_due(1050.1)
    agent.observer.collector.close()

"""The agent's pauses between reports."""

import collections
import types
from pathlib import Path

from prometheus_client import CollectorRegistry

from koordlet.agent import Agent
from koordlet.node_observer import NodeObserver
from koordlet.prediction.allocation import WholeAmounts
from koordlet.report import writer
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import PlainHost


async def test_after_a_refusal_the_next_report_waits_as_long_as_the_apiserver_asks(tmp_path):
    host = PlainHost(tmp_path / "host")
    host.set_node(1000, 1 << 30)
    settings = KoordletSettings(node_name="n1", state_dir="")
    agent = Agent(settings, NodeObserver(Path(tmp_path / "host"), 64), CollectorRegistry())
    agent._note(writer.Sent(writer.Outcome.REFUSED, problem="429", retry_after_seconds=50.0), None, None, 1000.0, 60.0)
    assert not agent._schedule.is_check_due(1049.9)
    assert agent._schedule.is_check_due(1050.1)
    agent.observer.collector.close()


def test_a_tick_compares_the_usage_of_prod_with_the_peak_in_force(tmp_path):
    host = PlainHost(tmp_path)
    host.set_node(1000, 1 << 30)
    registry = CollectorRegistry()
    agent = Agent(KoordletSettings(node_name="n1", state_dir=""), NodeObserver(tmp_path, 64), registry)
    agent.view.capacity = agent.view.allocatable = WholeAmounts(16_000, 64 << 30)
    agent.view.pods.keep_only(())
    for peak, expected in ((None, 0), (WholeAmounts(0, 1 << 40), 0), (WholeAmounts(0, 1), 1)):
        before = _exceeded(registry)
        agent.reports.prediction = None if peak is None else types.SimpleNamespace(
            prod_peak=peak, parameters=types.SimpleNamespace(predictor="n-sigma"), warm_pods=0, cold_pods=0,
            prod=collections.defaultdict(lambda: types.SimpleNamespace(peak=1.0)),
        )  # fmt: skip
        agent._tick()
        assert (_exceeded(registry) > before) == bool(expected), peak
    agent.observer.collector.close()


def _exceeded(registry):
    return registry.get_sample_value("koordlet_prod_peak_exceeded_seconds_total", {"resource": "memory"})

"""The agent's pauses between reports."""

import collections
import time
import types
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from api_types.node_metric.types import NodeMetricSpec
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


WRITTEN = writer.Sent(writer.Outcome.WRITTEN, "10")
NOT_FOUND = writer.Sent(writer.Outcome.NO_NODE_METRIC, problem="not found")


@pytest.mark.parametrize(
    ("meanwhile", "answer", "version", "threshold"),
    [
        ("9", WRITTEN, "10", 65),
        (None, WRITTEN, None, 0),  # deleted after the write, and the watch was faster than the answer
        ("12", WRITTEN, "12", 65),  # deleted and created again
        ("9", NOT_FOUND, None, 0),  # deleted before the write
        ("12", NOT_FOUND, "12", 65),
        ("9", writer.Sent(writer.Outcome.UNREACHABLE, problem="timeout"), "9", 65),
    ],
)
async def test_what_the_watch_brings_during_a_report_is_newer_than_its_answer(
    tmp_path, monkeypatch, meanwhile, answer, version, threshold
):
    PlainHost(tmp_path).set_node(1000, 1 << 30)
    settings = KoordletSettings(node_name="n1", state_dir="", enable_suppression=True)
    agent = Agent(settings, NodeObserver(tmp_path, 64), CollectorRegistry())
    view = agent.view
    view.capacity = view.allocatable = WholeAmounts(16_000, 64 << 30)
    view.pods.keep_only(())
    view.watches["node_metric"].synced, view.resource_version = True, "9"
    policy = {"midColocationPolicy": {"enable": True, "midSuppressThresholdPercent": 65}}
    view.spec = NodeMetricSpec.model_validate(policy)
    agent._tick()
    agent.observer.newest_at_seconds = time.time()

    async def send(_api, _name, _status, sent_version):
        assert sent_version == "9"
        view.resource_version = meanwhile
        return answer

    monkeypatch.setattr(writer, "send", send)
    await agent._report_if_due(None, 1000.0)
    assert (view.resource_version, agent.suppressor.threshold_percent()) == (version, threshold)
    agent.observer.collector.close()


def _exceeded(registry):
    return registry.get_sample_value("koordlet_prod_peak_exceeded_seconds_total", {"resource": "memory"})

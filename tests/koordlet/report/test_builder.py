"""A report as it is built: when, from what, and with which conditions."""

from __future__ import annotations

import types

import pytest
from prometheus_client import CollectorRegistry

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.node_metric import types as node_metric
from koordlet import agent as agent_module
from koordlet.agent import Agent
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.node_pressure import NodePressure
from koordlet.collectors.pod_pressure import PodPressure, PodWaits
from koordlet.prediction.usage_models import TrainingRound
from koordlet.report import builder, sending, status
from koordlet.settings import KoordletSettings
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod


@pytest.fixture
def node(tmp_path):
    node = OneNode(tmp_path, StaticCluster(bound_pod("a")))
    node.pod_cores = {"a": 0.5}
    yield node
    node.observer.collector.close()


async def test_a_status_is_built_only_to_be_sent(node, monkeypatch):
    """A look every 20 s at a prediction that does not move costs the prediction alone."""
    sent, built = [], []
    build = status.build

    async def send(_api, _name, document, _version):
        sent.append(document)
        return sending.Sent(sending.Outcome.WRITTEN, "2")

    monkeypatch.setattr(sending, "send", send)
    monkeypatch.setattr(status, "build", lambda *report, **parts: built.append(report) or build(*report, **parts))
    monkeypatch.setattr(agent_module, "time", types.SimpleNamespace(time=lambda: node.now, monotonic=lambda: 0.0))
    agent = Agent(KoordletSettings(node_name="n1", state_dir=""), node.observer, CollectorRegistry())
    agent.view = node.cluster
    agent.view.resource_version = "1"
    agent.view.note_write = lambda _sent, _stored: None
    looks = 0
    for second in range(600):
        node.run(1)
        if second >= 60 and agent._schedule.is_check_due(float(second)):
            looks += 1
            await agent._report_if_due(None, float(second))
    assert looks >= 27
    assert len(sent) == len(built) <= 11
    assert len(agent.reports.predicted_at_seconds) == looks


def test_a_condition_of_the_last_report_keeps_its_time_over_a_restart_while_its_status_lasts(node):
    node.run(60)
    old = [{**item, "lastTransitionTime": "2020-01-01T00:00:00Z"} for item in node.report()["conditions"]]
    old[1]["status"] = "Unknown"
    node.cluster.conditions = [node_metric.NodeMetricCondition.model_validate(item) for item in old]
    remaining = [item["lastTransitionTime"] == "2020-01-01T00:00:00Z" for item in node.report()["conditions"]]
    assert remaining == [index != 1 for index in range(len(old))]


def test_what_is_wrong_with_the_spec_is_a_condition(node):
    node.run(60)
    node.cluster.spec_problem = "spec.predictPolicy.n is 99: too large"
    assert node.condition("PredictionDegraded")["reason"] == "SpecRefused"
    node.cluster.spec_problem = None
    assert node.condition("PredictionDegraded")["status"] == "False"


def test_objects_that_cannot_be_decoded_and_pods_without_a_model_are_conditions(node):
    node.run(60)
    node.cluster.unreadable["pods", "shop/b"] = "metadata.uid is 1"
    node.observer.newest_training = TrainingRound(0, 3, 0, 0.0)
    condition = node.condition("PredictionDegraded")
    assert condition["reason"] == "UnreadableObjects"
    assert "pods shop/b: metadata.uid is 1" in condition["message"]
    assert "3 pods have no model" in condition["message"]


@pytest.mark.parametrize(("halves", "status"), [(3, "True"), (1, "False")])
def test_memory_in_use_that_is_largely_a_cache_of_zfs_is_named(node, halves, status):
    folder = node.host.host_root.proc_root / "spl/kstat/zfs"
    folder.mkdir(parents=True)
    rows = [("name", "type", "data"), ("c_min", 4, GIB), ("c_max", 4, 9 * GIB), ("size", 4, GIB + halves * GIB // 2)]
    (folder / "arcstats").write_text("13 1 0x01\n" + "".join(f"{row[0]:<31} {row[1]:<4} {row[2]}\n" for row in rows))
    node.run(60)
    condition = node.condition("PredictionDegraded")
    is_named = (
        condition["reason"] == "ZfsCacheCounts"
        and "of 4.0 GiB in use ZFS' cache (ARC) can give 1.5 GiB back" in condition["message"]
    )
    assert (condition["status"], is_named) == (status, status == "True")


def test_hot_pages_are_named_as_not_supported_and_do_not_count(tmp_path):
    spec = {"metricCollectPolicy": {"nodeMemoryCollectPolicy": "usageWithHotPageCache"}}
    node = OneNode(tmp_path, StaticCluster(bound_pod("a"), spec=spec))
    node.pod_cores = {"a": 0.5}
    node.run(60)
    condition = node.condition("SourceDegraded")
    assert (condition["status"], condition["reason"]) == ("True", "Unsupported")
    assert "usageWithoutPageCache is in force" in condition["message"]
    assert node.report()["nodeMetric"]["nodeUsage"]["resources"]["memory"] == str(node.used_bytes)
    node.observer.collector.close()


def test_memory_with_page_cache_counts_for_node_pods_and_prediction(tmp_path):
    policy = {"nodeMemoryCollectPolicy": "usageWithPageCache"}
    spec = {"metricCollectPolicy": policy, "predictPolicy": {"coldStartPeriodSeconds": 0}}
    node = OneNode(tmp_path, StaticCluster(bound_pod("a"), spec=spec))
    node.pod_cores = {"a": 0.5}
    node.run(60)
    report = node.report()
    assert int(report["nodeMetric"]["nodeUsage"]["resources"]["memory"]) == (16 << 30) - 4096
    with_page_cache = (512 << 20) + (5 << 20)
    assert int(report["podsMetric"][0]["podUsage"]["resources"]["memory"]) == with_page_cache
    assert int(report["usage"]["prod"]["memory"]) == pytest.approx(with_page_cache, rel=1e-6)
    assert int(report["prediction"]["node"]["mean"]["memory"]) == pytest.approx(16 << 30, rel=1e-3)
    assert node.condition("SourceDegraded")["status"] == "False"
    node.observer.collector.close()


def throttled(ratios, pods, tmp_path):
    statistics = CollectStatistics()
    collector = PodPressure(statistics)
    collector.pods = {uid: PodWaits(ratio) for uid, ratio in ratios.items()}
    return builder.throttled_prod_pods(
        [NodePressure(tmp_path, statistics), collector], {each.uid: each for each in pods}
    )


def test_prod_pods_throttled_in_a_quarter_of_the_periods_are_named_the_worst_first(tmp_path):
    ratios = {"a": 0.25, "b": 0.2, "c": 0.9, "d": None, "e": 0.0}
    assert throttled(ratios, map(bound_pod, ratios), tmp_path) == ["shop/c", "shop/a"]


@pytest.mark.parametrize("other", [PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE])
def test_throttled_pods_of_other_classes_are_left_out(other, tmp_path):
    assert throttled({"a": 0.9}, [bound_pod("a", other)], tmp_path) == []

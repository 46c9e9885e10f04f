"""Change every key of `colocation-config`, one by one, and see that the programs behave differently.

A document goes the way of the product: the manager's controllers read it, write the spec of a NodeMetric and publish
Mid resources of a fixed history of reports; the agent follows that spec on a host of files whose load is fixed too.
What is compared is what they do: published Mid resources, times and content of reports. Echoes of the key are not.
"""

from __future__ import annotations

import datetime as dt
import json
import types
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from api_types.colocation import controller_config as slo
from api_types.colocation import document as colocation_document
from api_types.node_metric.types import NodeMetricSpec
from api_types.node_metric.workloads import pod_hash
from apiserver_client import session
from koordlet import agent as agent_module
from koordlet.agent import Agent
from koordlet.cluster import spec_in_force
from koordlet.report import sending
from koordlet.samples import UsageSample
from koordlet.settings import KoordletSettings
from tests.fakes import cluster
from tests.koordlet.fed_node import FedNode
from tests.koordlet.mid_suppression import test_suppressor
from tests.koordlet.mid_suppression.suppressed_node import limited
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod
from tests.koordlet.prediction.calibration import test_node_calibration
from tests.manager.conftest import MID, NAMESPACE, World, allocated, amounts
from tests.manager.evictions import Short

pytestmark = pytest.mark.slow

MINUTES = 60
PREDICT = "nodePredictPolicy"
WARM = {PREDICT: {"coldStartPeriodSeconds": 0}}


def predicting(**keys: Any) -> dict[str, Any]:
    """Return a context in which every pod is warm."""
    return {PREDICT: {"coldStartPeriodSeconds": 0, **keys}}


STATIC = {"midReclaimMode": "static", "midStaticCPUReservedPercent": 50, "midStaticMemoryReservedPercent": 50}

MID_KEYS: dict[str, tuple[dict[str, Any], Any]] = {
    "enable": ({}, False),
    "degradeTimeMinutes": ({}, 60),
    "midReclaimMode": ({"midStaticCPUReservedPercent": 37}, "static"),
    "midCPUThresholdPercent": ({}, 37),
    "midMemoryThresholdPercent": ({}, 37),
    "midReclaimRatioPercent": ({}, 50),
    "midUnallocatedPercent": ({}, 37),
    "midTotalThresholdPercent": ({"midUnallocatedPercent": 37}, 20),
    "midFloor": ({}, "none"),
    "midPublish": ({}, "shadow"),
    "midMaxIncreasePercent": ({}, 10),
    "midStaticCPUReservedPercent": (STATIC, 37),
    "midStaticMemoryReservedPercent": (STATIC, 37),
    "preset": ({}, "conservative"),
    "updateTimeThresholdSeconds": ({}, 100_000),
    "resourceDiffThreshold": ({}, 0.001),
}
"""Key -> the keys beside it, and its changed value: seen in the published Mid resources."""

REPORT_KEYS: dict[str, tuple[dict[str, Any], Any]] = {
    "metricAggregateDurationSeconds": ({}, 60),
    "metricAggregatePolicy.durations": ({}, ["2m0s"]),
    "metricMemoryCollectPolicy": ({}, "usageWithPageCache"),
    f"{PREDICT}.coldStartPeriodSeconds": ({}, 0),
    f"{PREDICT}.predictor": (WARM, "borg-default"),
    f"{PREDICT}.n": (WARM, 1.0),
    f"{PREDICT}.percentile": (predicting(predictor="resource-central"), 20.0),
    f"{PREDICT}.cpuPercentile": (predicting(predictor="percentile"), 20.0),
    f"{PREDICT}.memoryPercentile": (predicting(predictor="percentile"), 20.0),
    f"{PREDICT}.requestDivisor": (predicting(predictor="borg-default"), 3.0),
    f"{PREDICT}.members": (predicting(predictor="max"), ["resource-central"]),
    f"{PREDICT}.safetyMarginPercent": (WARM, 50),
    f"{PREDICT}.cpuHalfLifeSeconds": (WARM, 60),
    f"{PREDICT}.memoryHalfLifeSeconds": (WARM, 60),
}
"""The same for keys that are seen in the newest report of the agent."""

TIME_KEYS: dict[str, tuple[dict[str, Any], Any]] = {
    "metricReportIntervalSeconds": ({}, 30),
    f"{PREDICT}.resourceDiffThresholdPercent": (WARM, 100),
    f"{PREDICT}.checkIntervalSeconds": (WARM, 7),
    f"{PREDICT}.forceUpdateIntervalSeconds": ({}, 40),
}
"""The same for keys that are seen in the times of the agent's reports."""

EVALUATION_KEYS: dict[str, tuple[dict[str, Any], Any]] = {
    f"{PREDICT}.evaluatedPredictors": ({}, ["resource-central", "max"]),
    f"{PREDICT}.horizonSeconds": ({}, 900),
}
"""The same for keys that are seen in the evaluation of the predictors."""

CALIBRATION_KEYS: dict[str, tuple[dict[str, Any], Any]] = {f"{PREDICT}.violationTargetPercent": ({}, 5.0)}
"""The same for keys that are seen in the calibrated peak of a node with three days of history."""

HISTORY_KEYS: dict[str, tuple[dict[str, Any], Any]] = {f"{PREDICT}.coldStart": ({}, "strict")}
"""The same for keys that are seen in the report of a node with a new pod of a workload that the manager knows."""

EVICTION = "midEviction"
EVICTS = {EVICTION: {"mode": "evict"}}
EMPTIES = {EVICTION: {"mode": "evict", "emptyNodeSeconds": 60}}
EVICTION_KEYS: dict[str, tuple[dict[str, Any], Any]] = {
    f"{EVICTION}.mode": ({}, "evict"),
    f"{EVICTION}.reports": (EVICTS, 5),
    f"{EVICTION}.shortageTolerancePercent": (EVICTS, 50),
    f"{EVICTION}.memoryThresholdPercent": (EVICTS, 95),
    f"{EVICTION}.nodeIntervalSeconds": (EVICTS, 300),
    f"{EVICTION}.clusterPerMinute": (EVICTS, 1),
    f"{EVICTION}.readmitPercent": (EVICTS, 150),
    f"{EVICTION}.readmitSeconds": (EVICTS, 120),
    f"{EVICTION}.emptyNodeSeconds": (EVICTS, 60),
    f"{EVICTION}.emptyNodesAtOnce": (EMPTIES, 2),
    "midEmergency": ({}, "freeze"),
}
"""The same for keys that are seen in the evictions of the manager, and in the times in which a node is closed."""
SUPPRESSION_KEYS: dict[str, tuple[dict[str, Any], Any]] = {"midSuppressThresholdPercent": ({}, 0)}
"""The same for keys that are seen in the patches that the agent plans for Mid pods."""

ALL = {key.path: key for key in slo.keys(slo.ColocationStrategy)}


def with_key(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the document with one more key."""
    parent, _, name = path.rpartition(".")
    if not parent:
        return {**document, name: value}
    return {**document, parent: {**document.get(parent, {}), name: value}}


async def manager_history(document: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the Mid resources that the manager publishes after each report, and the spec that it writes."""
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        world = World(server, api)
        world.configure({"enable": True, **document})
        await world.config.start()
        world.add_node()
        await world.settle()
        found = []

        async def step(seconds: int, peak: str | None, memory: str = "6k", mid: int = 0) -> None:
            world.now += dt.timedelta(seconds=seconds)
            if peak is not None:
                used = {"cpu": peak, "memory": memory}
                nothing = {"cpu": "0", "memory": "0"}
                world.report(
                    allocated=allocated(mid_cpu=mid, mid_memory=mid),
                    prodPeakMetric=amounts(peak, memory),
                    nodeMetric={"nodeUsage": {"resources": used}},
                    usage={"prod": used, "mid": nothing, "batchAndFree": nothing, "system": nothing},
                )
            await world.settle()
            found.append(world.mid_of())

        await step(10, "2")
        await step(10, "2100m", "6100")
        await step(301, "2100m", "6100")
        bound_since = {"lastTransitionTime": world.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        world.now += dt.timedelta(seconds=10)
        requests = {MID[0]: "500", MID[1]: "100"}
        server.add("pods", {
            "metadata": {"name": "p1", "labels": {"koordinator.sh/qosClass": "BE"}},
            "spec": {"nodeName": "n1", "priority": 7000, "containers": [{"resources": {"requests": requests}}]},
            "status": {
                "phase": "Running", "startTime": bound_since["lastTransitionTime"],
                "conditions": [{"type": "PodScheduled", "status": "True", **bound_since}],
            },
        }, NAMESPACE)  # fmt: skip
        await step(301, "2", mid=100)
        await step(16 * MINUTES, None)
        return found, server.get("nodemetrics", "n1")["spec"]


class Followed(StaticCluster):
    """A cluster as the agent's view of it."""

    resource_version = "1"

    def note_write(self, _sent_version: str, stored_version: str) -> None:
        self.resource_version = stored_version


async def agent_history(
    spec: dict[str, Any], folder: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[int], dict[str, Any]]:
    """Return the seconds at which the agent reports, and what its newest report says."""
    node = OneNode(folder, Followed(bound_pod("a"), bound_pod("b"), bound_pod("young"), spec=spec))
    agent = Agent(KoordletSettings(node_name="n1", state_dir=""), node.observer, CollectorRegistry())
    agent.view = node.cluster  # type: ignore[assignment]
    written: list[tuple[int, dict[str, Any]]] = []

    async def send(_api: object, _name: str, status: Any, _version: str) -> sending.Sent:
        written.append((node.seconds, status.to_wire()))
        return sending.Sent(sending.Outcome.WRITTEN, "2")

    monkeypatch.setattr(sending, "send", send)
    monkeypatch.setattr(agent_module, "time", types.SimpleNamespace(time=lambda: node.now, monotonic=lambda: 0.0))
    monkeypatch.setattr(agent_module.random, "random", lambda: 0.5)
    for second in range(200):
        node.pod_cores = {"a": 0.2 + 0.3 * (second // 30 % 3), "b": 0.1 + 0.8 * (second > 100)}
        node.pod_bytes = {"a": GIB // 8 * (1 + second // 30 % 3), "b": GIB // 4 * (1 + (second > 100))}
        node.node_cores = 0.5 + sum(node.pod_cores.values())
        node.run(1)
        if agent._schedule.is_check_due(float(second)):
            await agent._report_if_due(None, float(second))  # type: ignore[arg-type]
    node.observer.collector.close()
    newest = written[-1][1]
    prediction = newest.get("prediction", {})
    said = {key: newest.get(key) for key in ("nodeMetric", "podsMetric", "prodPeakMetric", "prodReclaimableMetric")}
    return [second for second, _ in written], {**said, "prod": prediction.get("prod"), "cold": prediction["coldPods"]}


def test_every_key_is_tried():
    used = {path for path, key in ALL.items() if key.unused is None}
    of_cluster = {key.path for key in slo.keys(slo.ColocationConfig) if not key.path.startswith("nodeConfigs.")}
    tried = (MID_KEYS, REPORT_KEYS, TIME_KEYS, EVALUATION_KEYS, CALIBRATION_KEYS, HISTORY_KEYS, EVICTION_KEYS)
    tried = (*tried, SUPPRESSION_KEYS)
    assert used | (of_cluster - set(ALL)) == set().union(*tried)


async def eviction_history(document: dict[str, Any]) -> list[Any]:
    """Return what was evicted, and what two short nodes publish and refuse, each minute; two more run Prod pods."""
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        nodes = ("n1", "n2")
        calm = ("n3", "n4")
        short = await Short(World(server, api)).start({"enable": True, **document}, nodes=(*nodes, *calm))
        short.add_pod("calm", 1000, 2000, node="n3")
        for node in calm:
            short.add_prod_pod(f"web-{node}", node)
        for node in nodes:
            for name in "abcd":
                short.add_pod(f"{node}-{name}", 1000, 2000, node=node)
        found = []
        for minute in range(25):
            memory_is_high = 10 <= minute < 16
            await short.minutes(
                1,
                nodes=(*nodes, *calm),
                calculated=(2000 if minute < 10 else 2500, 10_000),
                memory=(2000, 12_500 if memory_is_high else 2000),
            )
            short.end_pods()
            found.append((len(short.evicted), short.annotation(), short.world.mid_of()))
        return [(evicted, note is None, published) for evicted, note, published in found]


@pytest.mark.parametrize("path", sorted(EVICTION_KEYS))
async def test_a_key_of_the_eviction_changes_what_is_evicted_or_admitted(path, monkeypatch):
    monkeypatch.setattr("manager.mid_resource.patch.LEAST_SECONDS", 0.0)
    beside, value = EVICTION_KEYS[path]
    assert await eviction_history(beside) != await eviction_history(with_key(beside, path, value))


@pytest.mark.parametrize("path", ["midEviction.clusterPerMinute", "midEviction.emptyNodesAtOnce", "midEmergency"])
def test_a_key_of_the_whole_cluster_is_refused_in_an_entry_and_in_the_annotation_of_a_node(path):
    value = {"midEmergency": "drain"}.get(path, 100)
    entry = with_key({"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}}, path, value)
    reading = colocation_document.read_config(json.dumps({"nodeConfigs": [entry]}))
    assert [str(each).partition(":")[0] for each in reading.problems if each.effect.name == "LAYER_IGNORED"] == [
        f"nodeConfigs[0].{path}"
    ]
    assert colocation_document.read_strategy(json.dumps(with_key({}, path, value)))[0] is None


async def test_the_same_document_has_the_same_effect(tmp_path, monkeypatch):
    histories = [await manager_history(WARM) for _ in range(2)]
    assert histories[0] == histories[1]
    agents = [await agent_history(histories[0][1], tmp_path / name, monkeypatch) for name in ("1", "2")]
    assert agents[0] == agents[1]
    times, _ = agents[0]
    assert len(times) > 2, "some reports come early"


@pytest.mark.parametrize("path", sorted(MID_KEYS))
async def test_a_key_of_the_manager_changes_the_published_resources(path):
    beside, value = MID_KEYS[path]
    before, _ = await manager_history(beside)
    after, _ = await manager_history(with_key(beside, path, value))
    assert before != after


@pytest.mark.parametrize("path", sorted(REPORT_KEYS))
async def test_a_key_of_the_agent_changes_its_reports(path, tmp_path, monkeypatch):
    beside, value = REPORT_KEYS[path]
    said = []
    for name, document in (("before", beside), ("after", with_key(beside, path, value))):
        _, spec = await manager_history(document)
        said.append((await agent_history(spec, tmp_path / name, monkeypatch))[1])
    assert said[0] != said[1]


@pytest.mark.parametrize("path", sorted(EVALUATION_KEYS))
async def test_a_key_of_the_evaluation_changes_what_is_evaluated(path):
    beside, value = EVALUATION_KEYS[path]
    evaluated = []
    for document in (beside, with_key(beside, path, value)):
        _, spec = await manager_history(document)
        node = FedNode(StaticCluster(bound_pod("a"), spec=spec))
        for _ in node.run(3700, lambda step: ({"a": UsageSample(0.1 * (step % 7), GIB / 2)}, UsageSample(0.1, GIB))):
            pass
        evaluated.append(node.report()["prediction"]["evaluation"])
    assert evaluated[0] != evaluated[1]


@pytest.mark.parametrize("path", sorted(CALIBRATION_KEYS))
async def test_a_key_of_the_calibration_changes_the_peak(path):
    beside, value = CALIBRATION_KEYS[path]
    peaks = []
    for document in (beside, with_key(beside, path, value)):
        _, spec = await manager_history(document)
        policy = spec_in_force.predict_policy(slo.PredictPolicy.model_validate(spec["predictPolicy"]))
        parameters = spec_in_force.predict_parameters(policy).for_predictor("calibrated")
        peaks.append(test_node_calibration.known().peak(parameters=parameters).peak)
    assert peaks[0] > peaks[1]


@pytest.mark.parametrize("path", sorted(HISTORY_KEYS))
async def test_a_key_of_the_workload_history_changes_what_a_new_pod_is_charged(path):
    beside, value = HISTORY_KEYS[path]
    usage = {"mean": 0.1, "stdev": 0.0, "startPeak": 0.2, "request": 1.0, "rise": 0.0}
    entry = {"pod": pod_hash("a"), "updateTime": "2099-01-01T00:00:00Z", "podHours": 24, "cpu": usage}
    entry["memory"] = usage | {"request": GIB}
    peaks = []
    for document in (beside, with_key(beside, path, value)):
        _, spec = await manager_history(document)
        node = FedNode(StaticCluster(bound_pod("a"), spec={**spec, "workloadHistory": [entry]}))
        for _ in node.run(120, lambda _: ({"a": UsageSample(0.1, GIB / 8)}, UsageSample(0.1, GIB))):
            pass
        peaks.append(node.report()["prodPeakMetric"]["resource"]["resources"]["cpu"])
    assert peaks == ["200m", "1"]


@pytest.mark.parametrize("path", sorted(SUPPRESSION_KEYS))
async def test_a_key_of_the_suppression_changes_the_limits_of_mid_pods(path):
    beside, value = SUPPRESSION_KEYS[path]
    planned = []
    for document in (beside, with_key(beside, path, value)):
        _, spec = await manager_history(document)
        node = test_suppressor.Node(limited("a", 4000))
        node.view.spec = NodeMetricSpec.model_validate(spec)
        planned.append(len(node.plan(6)))
    assert [bool(each) for each in planned] == [True, False]


@pytest.mark.parametrize("path", sorted(TIME_KEYS))
async def test_a_key_of_the_schedule_changes_the_times_of_reports(path, tmp_path, monkeypatch):
    beside, value = TIME_KEYS[path]
    seconds = []
    for name, document in (("before", beside), ("after", with_key(beside, path, value))):
        _, spec = await manager_history(document)
        seconds.append((await agent_history(spec, tmp_path / name, monkeypatch))[0])
    assert seconds[0] != seconds[1]


@pytest.mark.parametrize("path", sorted(path for path, key in ALL.items() if key.unused))
def test_a_key_without_effect_is_named(path):
    value = {"x": 1} if path == "extensions" else "usage" if path.endswith("Policy") else 37
    outer, _, inner = path.partition(".")
    reading = colocation_document.read_config(json.dumps({outer: {inner: value} if inner else value}))
    assert reading.config is not None
    assert reading.unused == (path,)


def test_a_value_without_effect_is_named_with_the_value_in_force():
    reading = colocation_document.read_config(json.dumps({"metricMemoryCollectPolicy": "usageWithHotPageCache"}))
    (problem,) = reading.problems
    assert str(problem).startswith('metricMemoryCollectPolicy: seen "usageWithHotPageCache", want usageWithPageCache')
    assert reading.config is not None

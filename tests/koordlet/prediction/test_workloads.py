"""Pods without a history of their own on a node whose pod `old` has four hours of it; a training each 100 s."""

import dataclasses
import datetime as dt
import math

import pytest

from api_types.node_metric.workloads import WorkloadHistory, WorkloadMemory, WorkloadUsage, pod_hash
from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import Owner, WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from koordlet.samples import Snapshot, UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import StaticCluster, bound_pod
from tests.koordlet.prediction.pods import Pod

GIB = 2**30
START = 1.7e9
STEP = 100
CAPACITY = WholeAmounts(32_000, 128 * GIB)
PREDICTORS = ("n-sigma-v1", "n-sigma-v2", "borg-default", "resource-central", "percentile", "calibrated", "max")
OWNER = Owner("shop", "ReplicaSet", "web")
OLD = Pod("old", cpu_request_millis=4000, memory_request_bytes=8 * GIB, owner=OWNER)
NEW = dataclasses.replace(OLD, uid="new")
CPU = WorkloadUsage(mean=0.5, stdev=0.1, start_peak=3.0, request=4.0)
MEMORY = WorkloadMemory(mean=2.0 * GIB, stdev=0.1 * GIB, start_peak=3.0 * GIB, request=8.0 * GIB, rise=GIB)


def entry(*, updated_seconds=START, pod_hours=48.0, cpu=CPU, memory=MEMORY):
    updated = dt.datetime.fromtimestamp(updated_seconds, dt.UTC)
    return WorkloadHistory(pod="", update_time=updated, pod_hours=pod_hours, cpu=cpu, memory=memory)


class Node:
    def __init__(self, **parameters):
        self.parameters = PredictParameters(**parameters)
        self.server = PredictionServer(self.parameters, training_interval_seconds=STEP)
        self.now = START

    def run(self, seconds, pods=(OLD,), cores=0.5, gib=2.0):
        for _ in range(seconds // STEP):
            self.now += STEP
            used = {pod.uid: UsageSample(cores, gib * GIB) for pod in pods}
            node = UsageSample(0.1 + cores * len(used), (1 + gib * len(used)) * GIB)
            snapshot = Snapshot(self.now, node, UsageSample(0.1, 1.0 * GIB), used)
            samples = class_series.snapshot_series(snapshot, {}, Reserved(0.5, 4.0 * GIB))
            self.server.train(self.now, samples, self.now, pods)
            self.server.calibrate(self.now, pods, CAPACITY)
        return self

    def predict(self, pods=(OLD, NEW), predictor="n-sigma-v2"):
        policy = self.parameters.for_predictor(predictor)
        return self.server.predict(self.now, pods, CAPACITY, policy, CAPACITY)

    def lend(self, **changed):
        self.server.prod.history = {"new": entry(updated_seconds=self.now, **changed)}
        return self


def test_a_borrowed_pod_counts_less_than_its_request_and_at_least_its_usage():
    node = Node().run(14_400)
    cold = {name: node.predict(predictor=name).prod_peak for name in PREDICTORS}
    node.lend()
    for name in PREDICTORS:
        saved = cold[name].cpu_millis - node.predict(predictor=name).prod_peak.cpu_millis
        assert saved == 1000, f"{name}: 3 cores at the start of the workload"
    node.run(900, [OLD, NEW])
    for name in PREDICTORS:
        settled = node.predict(predictor=name)
        assert (settled.warm_pods, settled.borrowed_pods, settled.cold_pods) == (1, 1, 0)
        assert settled.prod_peak.cpu_millis < cold[name].cpu_millis, name
        assert settled.prod_peak.memory_bytes <= cold[name].memory_bytes, name
    node.run(STEP, [OLD, NEW], cores=9.0)
    assert all(node.predict(predictor=name).prod_peak.cpu_millis >= 18_000 for name in PREDICTORS)


def test_it_is_charged_its_request_at_its_start_where_that_of_its_workload_is_not_known():
    node = Node().run(14_400)
    cold = node.predict().prod_peak
    unknown = {"start_peak": 0.0}
    node.lend(cpu=CPU.model_copy(update=unknown), memory=MEMORY.model_copy(update=unknown))
    assert node.predict().prod_peak == cold


@pytest.mark.parametrize(
    "changed",
    [
        {"pod_hours": 23.9},
        {"updated_seconds": START - 3 * 86_400},
        {"cpu": CPU.model_copy(update={"request": 1.9})},
        {"memory": MEMORY.model_copy(update={"request": 17.0 * GIB})},
        None,
    ],
    ids=["too little", "too old", "less than half of the request", "more than twice the request", "switched off"],
)
def test_without_a_usable_history_every_number_is_that_of_a_cold_pod(changed):
    node, other = (Node(cold_start="history" if changed else "strict") for _ in range(2))
    other.server.prod.history = {"new": entry(**(changed or {}))}
    for seconds, pods in ((14_400, [OLD]), (1200, [OLD, NEW])):
        node.run(seconds, pods)
        other.run(seconds, pods)
        for name in PREDICTORS:
            found, expected = (each.predict(predictor=name) for each in (other, node))
            assert (found.prod, found.prod_peak, found.cold_pods) == (expected.prod, expected.prod_peak, 1)


def test_an_hourly_statement_has_what_the_warm_pods_used_and_the_peak_of_their_start():
    node = Node().run(600, cores=3.0).run(7200 - 600).run(3800, cores=1.0)
    stated = node.server.workloads.stated
    assert [(each.namespace, each.kind, each.uid) for each in stated] == [("shop", "ReplicaSet", "web")]
    assert stated[0].pod_hours == pytest.approx(1.0, abs=0.02)
    assert (stated[0].cpu.mean, stated[0].cpu.start_peak, stated[0].cpu.request) == pytest.approx(
        (1.0, 3.0, 4.0), abs=0.02
    )
    assert stated[0].cpu.m2 <= 0.02
    mixed = node.run(1700, cores=1.0).run(1900, cores=3.0).server.workloads.stated[0].cpu
    assert (mixed.mean, math.sqrt(mixed.m2)) == pytest.approx((2.0, 1.0), abs=0.06)


def test_a_pod_that_waits_for_its_containers_adds_nothing():
    node = Node().run(7200)
    node.server.starts.waiting = frozenset({"old"})
    assert node.run(7200).server.workloads.stated == []


def test_the_agent_names_its_cold_pods_and_uses_the_history_that_the_manager_writes_for_them():
    usage = {"mean": 0.2, "stdev": 0.05, "startPeak": 0.5, "request": 1.0}
    memory = {"mean": 2e8, "stdev": 1e7, "startPeak": 4e8, "request": float(GIB)}
    entry = {"pod": pod_hash("a"), "updateTime": "2099-01-01T00:00:00Z", "podHours": 48, "cpu": usage, "memory": memory}
    cold, borrowed = (
        FedNode(StaticCluster(bound_pod("a", owner=OWNER), spec={"workloadHistory": history}))
        for history in ([], [entry])
    )
    for node in (cold, borrowed):
        for _ in node.run(120, lambda _step: ({"a": UsageSample(0.1, GIB / 8)}, UsageSample(0.1, GIB))):
            pass
    before, after = (node.report() for node in (cold, borrowed))
    named = {"pod": pod_hash("a"), "namespace": "shop", "kind": "ReplicaSet", "uid": "web"}
    assert before["coldPods"] == after["coldPods"] == [named]
    assert (before["prediction"]["coldPods"], after["prediction"]["borrowedPods"]) == (1, 1)
    assert after["prodReclaimableMetric"]["resource"]["resources"]["cpu"] == "500m"

"""What a tick measures, what it computes again only after a change, and what it trains, evaluates and calibrates."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import math
import random
import shutil
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from api_types.colocation import controller_config
from api_types.kubernetes import quantities
from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.node_metric import types as node_metric
from koordlet.agent import Agent
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodTable
from koordlet.collectors.pod_usage import MOST_UNMEASURED_TICKS
from koordlet.metric_cache.series import PROD
from koordlet.metrics import debug_pages
from koordlet.metrics.node import EvaluationCollector
from koordlet.node_observer import NodeObserver
from koordlet.prediction import checkpointer, evaluation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.prediction.evaluation import Dropped, Plan
from koordlet.prediction.peaks import NoPrediction
from koordlet.prediction.server import Prediction
from koordlet.report.builder import ReportBuilder
from koordlet.samples import (
    NODE,
    PROD_AND_UNRESERVED_SYSTEM,
    SYSTEM,
    UNRESERVED_SYSTEM,
    Resource,
    SeriesKind,
    UsageSample,
    pod_key,
)
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import BURSTABLE, GUARANTEED, V1, V2, PlainHost, rewrite
from tests.koordlet.collectors.test_capped_usage import throttled
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod

CID = "c" * 64


def with_container(tmp_path, **options):
    cluster = StaticCluster(bound_pod("a", container_ids=frozenset({CID})))
    node = OneNode(tmp_path, cluster, V2, **options)
    node.pod_cores = {"a": 0.5}
    node.host.set_group(node.host.container("a", CID), 0.0, 1 << 20)
    return node


def page_of(node):
    """Return the debug page of a node's agent."""
    return json.loads(b"".join(debug_pages.pieces(debug_pages.inputs(node.reports))))


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    ("cpus", "by_label", "offer"), [("0-11", 0, 400), ("0-15", 0, 11_000), ("0-15", 12_000, 400), ("0-9", 0, 11_000)]
)
def test_idle_exclusive_cpus_are_nothing_that_mid_could_use(tmp_path, version, cpus, by_label, offer):
    """Of 16 CPUs 12 belong to a pod that uses 1.5; the Burstable pod uses 2.6 of the other 4."""
    container = "a" * 64
    db = bound_pod(
        "db", cpu_request_millis=12_000, cpu_limit_millis=12_000, exclusive_cpu_millis=by_label,
        container_ids=frozenset({container}), whole_cpus={container: 12},
    )  # fmt: skip
    spec = {"predictPolicy": {"coldStartPeriodSeconds": 30}}
    one = OneNode(tmp_path, StaticCluster(db, bound_pod("web", cpu_request_millis=3000), spec=spec), version)
    one.pod_cores, one.node_cores = {"db": 1.5, "web": 2.6}, 4.4
    guaranteed = one.host.pod("db", GUARANTEED) / container

    def in_container():
        mount = one.host.cpu_mount if version == V2 else one.host.cpu_mount.parent / "cpuset"
        one.host.set_group(guaranteed, 1.0, GIB)
        (mount / guaranteed).mkdir(parents=True, exist_ok=True)
        rewrite(mount / guaranteed / ("cpuset.cpus.effective" if version == V2 else "cpuset.cpus"), f"{cpus}\n")

    one.host.pod = lambda name, real=one.host.pod: real(name, GUARANTEED if name == "db" else BURSTABLE)
    one.run(181, in_container)
    reclaimable = one.report()["prodReclaimableMetric"]["resource"]["resources"]["cpu"]
    assert quantities.cpu_millis(reclaimable) <= offer
    assert (quantities.cpu_millis(reclaimable) > 5000) == (offer > 5000)


@pytest.mark.parametrize("version", [V1, V2])
def test_what_is_swapped_out_of_a_pod_is_used_by_it_and_by_the_node(tmp_path, version):
    one = OneNode(tmp_path, StaticCluster(bound_pod("db")), version)
    one.pod_cores["db"], one.pod_bytes["db"], one.used_bytes = 0.5, 3 * GIB, 4 * GIB
    swap_gib = 20  # more than the memory of the node

    def swapped_out():
        with (one.host.host_root.proc_root / "meminfo").open("a") as meminfo:
            meminfo.write(f"SwapTotal: {30 << 20} kB\nSwapFree: {30 - swap_gib << 20} kB\nSwapCached: 0 kB\n")
        pod = one.host.memory_mount / one.host.pod("db")
        with (pod / "memory.stat").open("a") as memory_stat:
            memory_stat.write(f"total_swap {swap_gib * GIB}\n" if version == V1 else f"swapcached {GIB}\n")
        if version == V2:
            rewrite(pod / "memory.swap.current", f"{(swap_gib + 1) * GIB}\n")

    one.run(31, swapped_out)
    used = one.report()
    assert used["usage"]["prod"]["memory"] == str(23 * GIB)
    assert used["nodeMetric"]["nodeUsage"]["resources"]["memory"] == str(24 * GIB)


def test_the_pods_are_looked_up_again_only_after_a_change(tmp_path, monkeypatch):
    node = with_container(tmp_path)
    asked = []
    by_uid = PodTable.by_uid
    monkeypatch.setattr(PodTable, "by_uid", lambda table: asked.append(1) or by_uid(table))
    node.run(10)
    assert len(asked) == 1
    changes = (
        lambda pods: pods.put(bound_pod("b")),
        lambda pods: pods.drop("shop", "b"),
        lambda pods: pods.keep_only([("shop", "a")]),
    )
    for number, change in enumerate(changes, start=2):
        change(node.cluster.pods)
        node.run(2)
        assert len(asked) == number
        assert set(node.observer.pods_by_uid) == ({"a", "b"} if number == 2 else {"a"})
    node.observer.collector.close()


@pytest.mark.parametrize("step", [7200.0, -7200.0, 30.0, -30.0])
def test_samples_keep_their_ages_when_the_clock_is_set(tmp_path, step):
    node = with_container(tmp_path)
    node.run(2)
    cache = node.observer.cache
    for second in range(120):
        node.observer.observe(node.now + second, node.cluster, 5000.0 + second)
    ages = node.now + 119 - cache.cached(node.now + 119).at_seconds
    now = node.now + 120 + step
    node.observer.observe(now, node.cluster, 5120.0)
    assert list(now - cache.cached(now).at_seconds)[:-1] == pytest.approx(list(ages + 1.0))
    node.observer.collector.close()


@pytest.fixture
def node(tmp_path):
    made = OneNode(tmp_path, StaticCluster(bound_pod("a")))
    made.pod_cores = {"a": 0.5}
    yield made
    made.observer.collector.close()


def test_where_pods_may_be_missing_a_node_without_any_is_all_system(tmp_path):
    """The groups of pods cannot be found, so the sum over pods is unknown."""
    node = OneNode(tmp_path, StaticCluster(), V2)
    (node.host.host_root.cgroup_root / "kubepods").rename(tmp_path / "away")
    node.run(3)
    assert SYSTEM not in node.observer.newest
    node.cluster.may_lack_pods = True
    node.run(1)
    assert node.observer.newest[SYSTEM].cpu_cores == pytest.approx(4.0)
    node.observer.collector.close()


def test_where_pods_may_be_missing_one_that_is_not_measured_leaves_the_system_unknown(node):
    node.cluster.may_lack_pods = True
    node.run(1)
    node.host.write(node.host.pod("a"), "memory.stat", "")
    node.host.set_node(1000, 1 << 30)
    node.clock.advance(1.0)
    node.observer.observe(node.now + 1, node.cluster)
    assert node.observer.collector.collect(node.now + 2).unmeasured_pods == {"a"}
    assert SYSTEM not in node.observer.newest


def calibrated(node):
    node.run(60)
    asked = []
    node.observer.server.calibrate = lambda *given, **_more: asked.append(given)
    node.observer.calibrate(node.now, node.cluster, 1000.0)
    return bool(asked)


def evaluated(node):
    node.run(60)
    parameters = spec_in_force.predict_parameters(node.policy)
    asked = []
    predict_each = node.observer.server.predict_each
    node.observer.server.predict_each = lambda *given, **more: asked.append(given) or predict_each(*given, **more)
    node.observer.evaluate(node.now, node.cluster, evaluation.Plan.from_policy(node.policy, parameters), 1000.0)
    return bool(asked)


@pytest.mark.parametrize("done", [calibrated, evaluated])
@pytest.mark.parametrize(("generation", "synced"), [(1, True), (None, True), (1, False), (None, False)])
def test_nothing_is_calibrated_or_forecast_before_pods_and_spec_are_known(node, done, generation, synced):
    node.cluster.generation, node.cluster.pods.synced = generation, synced
    assert done(node) is (generation is not None and synced)


EVALUATED = ["resource-central", "borg-default"]
USAGE = UsageSample(0.5, float(GIB))


@pytest.fixture
def fed_node():
    """Return a node of two Prod pods and one Mid pod with a minute of samples, not trained yet."""
    policy = {"coldStartPeriodSeconds": 0, "evaluatedPredictors": ["n-sigma-v2", *EVALUATED]}
    pods = bound_pod("a"), bound_pod("b"), bound_pod("mid", PriorityClass.MID)
    made = FedNode(StaticCluster(*pods, spec={"predictPolicy": policy}))
    sample_for_a_minute(made, USAGE)
    return made


def sample_for_a_minute(fed_node, system):
    for _ in range(6):
        fed_node.sample({"a": USAGE, "b": USAGE, "mid": USAGE}, system)


def evaluate(fed_node):
    parameters = spec_in_force.predict_parameters(fed_node.policy)
    fed_node.observer.train(fed_node.now, parameters, fed_node.boot_seconds)
    fed_node.observer.evaluate(
        fed_node.now, fed_node.cluster, evaluation.Plan.from_policy(fed_node.policy, parameters), fed_node.boot_seconds
    )
    return fed_node.observer.evaluation


def test_a_forecast_is_of_the_prod_pods_and_of_every_predictor(fed_node):
    in_force = fed_node.policy.predictor
    forecast = evaluate(fed_node).forecast
    assert sorted(forecast.pods) == ["a", "b"]
    assert set(forecast.peaks) == {in_force, "n-sigma-v2", *EVALUATED}
    assert forecast.requested == {Resource.CPU: 2.0, Resource.MEMORY: 2.0 * GIB}
    assert forecast.capacity == {Resource.CPU: 16.0, Resource.MEMORY: 16.0 * GIB}
    assert forecast.made_at_seconds == fed_node.now


def test_the_usage_of_prod_pods_and_system_is_observed_for_a_forecast(fed_node):
    evaluate(fed_node)
    sample_for_a_minute(fed_node, UsageSample(1.5, 2.0 * GIB))
    highest = evaluate(fed_node).forecast.highest
    assert highest[Resource.CPU] == pytest.approx(0.5 + 0.5 + 1.5 - 0.5), "half a core is reserved"
    assert highest[Resource.MEMORY] == pytest.approx((1 + 1 + 2 - 1) * GIB)
    assert fed_node.observer.evaluation.forecast.elapsed_seconds == 60.0


def test_a_substitute_answers_for_the_predictor_in_force_only(fed_node):
    predict_each = fed_node.observer.server.predict_each

    def answers(*given, **more):
        in_force, other, _failed, *rest = predict_each(*given, **more)
        return [named(in_force, "a substitute"), named(other, "another one"), NoPrediction("none"), *rest]

    def named(prediction, name):
        parameters = dataclasses.replace(prediction.parameters, predictor=name)
        return dataclasses.replace(prediction, parameters=parameters)

    fed_node.observer.server.predict_each = answers
    forecast = evaluate(fed_node).forecast
    names = list(
        evaluation.Plan.from_policy(fed_node.policy, spec_in_force.predict_parameters(fed_node.policy)).predictors
    )
    assert list(forecast.peaks) == ["a substitute", *names[3:]]


FULL_CORE = UsageSample(1.0, float(GIB))


@pytest.mark.parametrize(
    ("ratios", "capped"),
    [({}, set()), ({"a": 0.5}, {Resource.CPU}), ({"mid": 0.5}, set()), ({"late": 0.5}, set()), ({"gone": 0.5}, set())],
)
def test_only_prod_pods_that_are_measured_hold_usage_down(ratios, capped):
    pods = bound_pod("a"), bound_pod("late"), bound_pod("mid", PriorityClass.MID)
    node = FedNode(StaticCluster(*pods))
    node.observer.collector.collectors = (throttled(**ratios),)
    seen = []
    node.observer.server.calibrate = lambda *_given, capped, **_more: seen.append(capped)
    node.sample({"a": FULL_CORE, "mid": FULL_CORE}, FULL_CORE)
    node.train()
    assert seen == [capped]


@pytest.mark.parametrize("has_packages", [True, False])
@pytest.mark.parametrize(("generation", "synced"), [(1, True), (None, True), (1, False), (None, False)])
def test_packages_get_samples_once_pods_and_spec_are_known(has_packages, generation, synced):
    node = FedNode(StaticCluster(bound_pod("a")))
    node.cluster.generation, node.cluster.pods.synced = generation, synced
    node.sample({"a": UsageSample(1.0, float(GIB))}, UsageSample(1.0, float(GIB)))
    server, seen = node.observer.server, []
    server.packages = ["a package"] * has_packages
    server.inform_packages = lambda *given, **more: seen.append((given, more))
    parameters = spec_in_force.predict_parameters(node.policy)
    plan = evaluation.Plan.from_policy(node.policy, parameters)
    node.observer.inform_packages(node.now, node.cluster, plan)
    cluster = node.cluster
    wanted = (node.now, cluster.pods.active(), cluster.capacity, plan.predictors), {"unmeasured": frozenset()}
    assert seen == [wanted] * (has_packages and generation is not None and synced)


BATCH_UID, PROD_UID = "a" * 32, "b" * 32
POLICY = spec_in_force.predict_policy(None).model_copy(update={"cold_start_period_seconds": 0})


class Machine:
    """A host of four CPUs with two busy pods, its cluster, and the parts of the agent that predict."""

    def __init__(self, root):
        self.files = PlainHost(root)
        self.observer = NodeObserver(root, 1500, monotonic_ns=lambda: int(self.at_seconds * 1e9))
        self.reports = ReportBuilder(self.observer)
        self.pods = PodTable()
        self.spec = node_metric.NodeMetricSpec()
        self.generation = None
        self.may_lack_pods = False
        self.reservation_problem = self.spec_problem = None
        self.lacks_policy = False
        self.conditions = ()
        self.unreadable = {}
        self.allocatable = self.capacity = WholeAmounts(4000, 16 << 30)
        self.at_seconds = 1000.0

    def run(self, seconds):
        for _ in range(seconds):
            self.at_seconds += 1
            passed = self.at_seconds - 1000
            self.files.set_node(round(350 * passed), 8 << 30)
            self.files.set_group(self.files.pod(PROD_UID), 0.5 * passed, 1 << 30)
            self.files.set_group(self.files.pod(BATCH_UID), 2.5 * passed, 2 << 30)
            self.observer.observe(self.at_seconds, self)

    def train(self):
        self.observer.train(self.at_seconds, spec_in_force.predict_parameters(POLICY))

    def build(self):
        return self.reports.build(self.reports.predict(self.at_seconds, self, POLICY), self, None)

    def bind(self, *bound):
        for each in bound:
            self.pods.put(each)
        self.pods.keep_only([("shop", each.name) for each in bound])


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    yield made
    made.observer.collector.close()


def test_before_the_first_list_no_class_is_recorded_and_after_it_batch_never_counted_as_prod(machine):
    machine.run(40)
    machine.train()
    kinds = {key.kind for key in machine.observer.newest}
    assert kinds == {SeriesKind.NODE, SeriesKind.SYSTEM, SeriesKind.POD}
    machine.bind(bound_pod(PROD_UID), bound_pod(BATCH_UID, PriorityClass.BATCH))
    machine.run(40)
    machine.train()
    assert {NODE, SYSTEM} <= machine.observer.newest.keys()
    peak = quantities.cpu_millis(machine.build().prod_peak_metric.resource.resources["cpu"])
    assert peak == pytest.approx(1000, abs=30)  # Prod uses 0.5, the system 0.5; Batch would add 2.5


BIG = {"cpu_request_millis": 9000, "memory_request_bytes": 1 << 40}


@pytest.mark.parametrize("is_predicted", [True, False])
def test_allocated_is_what_the_prediction_subtracts_from_and_only_of_admitted_pods(machine, is_predicted):
    mid = {"mid_cpu_request_millis": 700, "mid_memory_request_bytes": 5}
    machine.bind(
        bound_pod(PROD_UID, PriorityClass.NONE),
        bound_pod(BATCH_UID, PriorityClass.BATCH),
        bound_pod("waiting", is_admitted=False, **BIG),
        bound_pod("mid", PriorityClass.MID, cpu_request_millis=0, memory_request_bytes=0, **mid),
        bound_pod("mid-waiting", PriorityClass.MID, is_admitted=False, **mid),
    )
    machine.run(40)
    if is_predicted:
        machine.train()
    status = machine.build()
    assert (status.prediction is not None) is is_predicted
    assert status.allocated.prod == {"cpu": "1", "memory": str(1 << 30)}
    assert status.allocated.mid == {"kubernetes.io/mid-cpu": "700", "kubernetes.io/mid-memory": "5"}
    if is_predicted:
        peak = status.prod_peak_metric.resource.resources
        reclaimable = status.prod_reclaimable_metric.resource.resources
        assert quantities.cpu_millis(reclaimable["cpu"]) == max(0, 1000 - quantities.cpu_millis(peak["cpu"]))


pytestmark = pytest.mark.slow

SUMS = {PROD, SYSTEM, UNRESERVED_SYSTEM, PROD_AND_UNRESERVED_SYSTEM}
WARM_AT_ONCE = {"predictPolicy": {"coldStartPeriodSeconds": 0}}


def started(tmp_path, version, *names):
    cluster = StaticCluster(bound_pod("a"), bound_pod("b"), spec=WARM_AT_ONCE)
    node = OneNode(tmp_path, cluster, version)
    node.pod_cores = dict.fromkeys(names, 0.5)
    node.run(90)
    return node


def test_an_orphaned_group_of_one_hierarchy_changes_nothing(tmp_path):
    """A group of a pod that ended stays in cpuacct and not in memory: an ordinary leak of cgroups v1."""
    node = started(tmp_path, V1, "a", "b")
    before = node.report()
    node.host.set_group(node.host.pod("dead"), 0.0, 0)
    shutil.rmtree(node.host.memory_mount / node.host.pod("dead"))
    node.run(330)
    after = node.report()
    assert node.observer.newest.keys() >= SUMS
    assert after["prodPeakMetric"] == before["prodPeakMetric"]
    assert node.condition("SourceDegraded")["status"] == "False"
    assert node.condition("PredictionDegraded")["reason"] == "Predicting"
    assert node.observer.collector.statistics.orphan_groups == 1


@pytest.mark.parametrize("version", [V1, V2])
def test_a_bound_pod_that_stays_unreadable_is_charged_its_request_and_named(tmp_path, version):
    node = started(tmp_path, version, "a", "b")
    before = node.report()["prediction"]
    assert (before["warmPods"], before["coldPods"]) == (2, 0)

    def spoil():
        node.host.write(node.host.pod("b"), "memory.stat", "nonsense\n")

    node.run(330, spoil)
    assert node.observer.newest.keys() >= SUMS
    report = node.report()
    assert (report["prediction"]["warmPods"], report["prediction"]["coldPods"]) == (1, 1)
    assert report["prediction"]["prod"]["coldRequests"] == {"cpu": "1", "memory": str(GIB)}
    assert report["usage"]["system"]["cpu"] == "3500m", "its half core is part of the system"
    condition = node.condition("SourceDegraded")
    assert (condition["status"], condition["reason"]) == ("True", "NoData")
    assert "1 pods cannot be measured" in condition["message"]
    assert f"{node.host.pod('b')}/memory.stat" in condition["message"]
    node.run(2)
    assert node.report()["prediction"]["coldPods"] == 0, "readable again: warm by what was recorded before"
    assert node.condition("SourceDegraded")["status"] == "False"


def test_a_new_pod_hides_the_system_for_one_tick_and_is_never_named(tmp_path):
    node = started(tmp_path, V1, "a")
    assert SYSTEM in node.observer.newest
    node.pod_cores["b"] = 0.5
    node.run(1)
    assert SYSTEM not in node.observer.newest
    assert node.condition("SourceDegraded")["status"] == "False"
    node.run(1)
    assert SYSTEM in node.observer.newest
    assert not node.observer.pods_in_system


def test_pods_that_start_one_after_the_other_hide_the_system_for_a_few_ticks_only(tmp_path):
    """Each is unmeasured for one tick only, however many there are."""
    node = started(tmp_path, V1, "a")
    for number in range(3 * MOST_UNMEASURED_TICKS):
        node.pod_cores[f"job-{number}"] = 0.01
        node.run(1)
        assert not node.observer.pods_in_system
        assert (SYSTEM in node.observer.newest) == (number >= MOST_UNMEASURED_TICKS)
    assert node.observer.newest.keys() >= SUMS
    node.run(1)
    node.pod_cores["last"] = 0.01
    node.run(1)
    assert SYSTEM not in node.observer.newest


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("pause", [0, 1])
def test_short_pods_one_after_the_other_do_not_end_the_prediction(tmp_path, version, pause):
    node = started(tmp_path, version, "a")
    before = node.report()["prodPeakMetric"]
    for number in range(400 // (1 + pause)):
        name = f"job-{number}"
        node.pod_cores[name], node.pod_bytes[name] = 0.01, 0
        node.run(1)
        del node.pod_cores[name]
        node.host.remove_group(node.host.pod(name))
        node.run(pause)
    assert node.condition("PredictionDegraded")["reason"] == "Predicting"
    assert node.report()["prodPeakMetric"] == before


def test_mid_pods_that_live_for_seconds_reduce_what_is_reclaimable_and_do_not_end_the_prediction(tmp_path):
    """Their first and last second counts as system."""
    node = OneNode(tmp_path, StaticCluster(bound_pod("a", cpu_request_millis=10_000), spec=WARM_AT_ONCE))
    node.pod_cores = {"a": 0.5}
    node.node_cores = 2.5  # 0.4 of the system, which has 0.5 reserved, and two Mid pods of 0.8
    reclaimable = []
    for life in (90, 5):
        for second in range(90):
            if second % life == 0:
                for name in [name for name in node.pod_cores if name != "a"]:
                    del node.pod_cores[name]
                    node.host.remove_group(node.host.pod(name))
                for name in (f"{life}-{second}-1", f"{life}-{second}-2"):
                    node.cluster.pods.put(bound_pod(name, PriorityClass.MID))
                    node.pod_cores[name] = 0.8
            node.run(1)
        cpu = node.report()["prodReclaimableMetric"]["resource"]["resources"]["cpu"]
        reclaimable.append(quantities.cpu_millis(cpu))
        assert node.condition("PredictionDegraded")["reason"] == "Predicting"
    assert reclaimable[0] == 9500
    assert 4000 < reclaimable[1] < 9000


def test_a_pod_that_cannot_be_read_for_a_moment_counts_as_system_as_late_beside_short_pods_as_without(tmp_path):
    node = started(tmp_path, V2, "a", "b")

    def spoil():
        node.host.write(node.host.pod("b"), "cpu.stat", "nonsense\n")

    for number in range(3 * MOST_UNMEASURED_TICKS):
        node.pod_cores[f"job-{number}"] = 0.01
        is_spoilt = number >= 2 * MOST_UNMEASURED_TICKS
        node.run(1, *([spoil] if is_spoilt else []))
        assert (SYSTEM in node.observer.newest) == (number >= MOST_UNMEASURED_TICKS and not is_spoilt)


HORIZON = 900
COMPARED = ["n-sigma-v2", "resource-central", "borg-default"]
HALF_LIFE = 7 * 86_400
MONDAY_HOUR = 4 * 24  # the first Monday of 1970
HOURS_A_WEEK = 168


def node_with(*pods, **policy):
    policy = {
        "coldStartPeriodSeconds": 300,
        "horizonSeconds": HORIZON,
        "evaluatedPredictors": COMPARED,
        **policy,
    }
    return FedNode(StaticCluster(*pods, spec={"predictPolicy": policy}))


def bursts(step):
    """Return the usage of two Prod pods, one of which ends, a Batch pod, and a system beyond its reservation."""
    pods = {
        "steady": UsageSample(0.4, 0.5 * GIB),
        "bursty": UsageSample(5.9 if step % 97 < 6 else 0.2, 0.2 * GIB + 2**20 * (step % 13)),
        "batch": UsageSample(3.0, GIB),
    }
    if step > 130:
        del pods["bursty"]
    if step > 60:
        pods["younger"] = UsageSample(2.5, 2 * GIB)
    return pods, UsageSample(0.7 + 0.1 * (step % 3), 1.25 * GIB)


def cluster_pods():
    return bound_pod("steady"), bound_pod("bursty"), bound_pod("batch", PriorityClass.BATCH)


def p90(values):
    return sorted(values)[max(int(len(values) * 0.9) - 1, 0)]


def recorded_usage(node, uids, until, resource):
    """Return the p90 of pods + S over the samples of the last 30 s."""
    cached = node.observer.cache.cached(node.now)
    row = list(Resource).index(resource)
    series = {key: cached.values[row, index].tolist() for index, key in enumerate(cached.keys)}
    sums = []
    for column, at in enumerate(cached.at_seconds.tolist()):
        if until - 30 < at <= until and not math.isnan(series[UNRESERVED_SYSTEM][column]):
            usages = [series[pod_key(uid)][column] for uid in uids if pod_key(uid) in series]
            sums.append(series[UNRESERVED_SYSTEM][column] + sum(each for each in usages if not math.isnan(each)))
    return p90(sums)


def predicted_peak(node, predictor, resource):
    parameters = spec_in_force.predict_parameters(node.policy).for_predictor(predictor)
    found = node.observer.server.predict(
        node.now, node.cluster.pods.active(), node.cluster.allocatable, parameters, node.cluster.capacity
    )
    assert isinstance(found, Prediction)
    whole = found.prod_peak
    return whole.cpu_millis / 1000 if resource is Resource.CPU else float(whole.memory_bytes)


class Independent:
    """Forecasts at the same times, closed from recorded samples, and their decayed scores."""

    def __init__(self, node):
        self.node = node
        self.closed = []
        self.begin()

    def begin(self):
        self.began_at = self.node.now
        self.uids = [pod.uid for pod in self.node.cluster.pods.active() if pod.priority_class == PriorityClass.PROD]
        self.peaks = {(name, each): predicted_peak(self.node, name, each) for name in COMPARED for each in Resource}
        self.highest = dict.fromkeys(Resource, 0.0)

    def trained(self):
        for each in Resource:
            used = recorded_usage(self.node, self.uids, self.node.now, each)
            self.highest[each] = max(self.highest[each], used)
        if self.node.now - self.began_at >= HORIZON:
            self.closed.append((self.node.now, len(self.uids), self.peaks, self.highest, self.began_at))
            self.begin()

    def published(self):
        """Return the evaluation as it should be in the report."""
        newest = self.closed[-1][0]
        found = []
        for name in COMPARED:
            entry = {"predictor": name, "horizonSeconds": HORIZON}
            for resource, unit in ((Resource.CPU, 1.0), (Resource.MEMORY, GIB)):
                weights = [2 ** ((at - newest) / HALF_LIFE) for at, *_ in self.closed]
                of = [(peaks[name, resource], pods * unit, used[resource]) for _, pods, peaks, used, _ in self.closed]
                excess = [(used - peak) / used if used > peak else 0.0 for peak, _, used in of]
                violations = sum(w for w, over in zip(weights, excess, strict=True) if over)
                peaks = sum(w * min(peak, requested) for w, (peak, requested, _) in zip(weights, of, strict=True))
                requests = sum(w * requested for w, (_, requested, _) in zip(weights, of, strict=True))
                entry[resource.value] = {
                    "forecasts": round(sum(weights), 1),
                    "violationPercent": round(100 * violations / sum(weights), 2),
                    "savingsPercent": pytest.approx(100 * (1 - peaks / requests), abs=0.01),
                }
                if violations:
                    severity = sum(w * over for w, over in zip(weights, excess, strict=True)) / violations
                    entry[resource.value]["severityPercent"] = pytest.approx(100 * severity, abs=0.01)
                    hours = [(int(began_at) // 3600 - MONDAY_HOUR) % HOURS_A_WEEK for *_, began_at in self.closed]
                    by_hour = {
                        hour: sum(w for w, at, over in zip(weights, hours, excess, strict=True) if over and at == hour)
                        for hour in hours
                    }
                    worst = max(by_hour, key=by_hour.get)
                    entry[resource.value]["worstHour"] = worst
                    entry[resource.value]["worstHourViolationPercent"] = pytest.approx(100 * by_hour[worst], abs=0.01)
            found.append(entry)
        return found


@pytest.mark.slow
def test_the_published_evaluation_follows_from_the_recorded_samples():
    node = node_with(*cluster_pods())
    own = None
    for _ in node.run(6 * HORIZON, bursts):
        if own is None:
            own = Independent(node)
        else:
            own.trained()
    assert len(own.closed) == 5
    published = node.report()["prediction"]["evaluation"]
    assert published == own.published()
    assert {entry["cpu"]["violationPercent"] > 0 for entry in published} == {True, False}


# No effect on what is published


def published_without_evaluation(status):
    shown = copy.deepcopy(status)
    prediction = shown.get("prediction", {})
    prediction.pop("evaluation", None)
    prediction.get("parameters", {}).pop("evaluatedPredictors", None)
    return shown


@pytest.mark.slow
@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    evaluated=st.lists(st.sampled_from(controller_config.PREDICTOR_NAMES), max_size=6, unique=True),
    in_force=st.sampled_from(controller_config.PREDICTOR_NAMES),
)
def test_a_predictor_that_is_only_evaluated_changes_nothing_that_is_published(seed, evaluated, in_force):
    histories = []
    for names in ([], evaluated):
        chance = random.Random(seed)
        node = node_with(*cluster_pods(), predictor=in_force, evaluatedPredictors=names)

        def usage(step, chance=chance):
            pods, system = bursts(step)
            return {name: UsageSample(chance.random(), chance.random() * GIB) for name in pods}, system

        reports = [published_without_evaluation(node.report()) for number in node.run(1000, usage) if number % 15 == 14]
        histories.append(reports)
        assert set(node.observer.evaluation.records) == {in_force, *names}
    assert histories[0] == histories[1]


# Restarts


@pytest.mark.slow
def test_a_restart_in_the_middle_continues_the_evaluation(tmp_path, monkeypatch):
    """The successor reads what the first agent wrote; its models and scores are those of an agent that never ended."""
    clock = {}
    fake = type("Time", (), {
        "time": staticmethod(lambda: clock["node"].now),
        "clock_gettime": staticmethod(lambda _: clock["node"].boot_seconds),
        "CLOCK_BOOTTIME": 7,
    })  # fmt: skip
    monkeypatch.setattr(checkpointer, "time", fake)
    steady = node_with(*cluster_pods())
    for _ in steady.run(3 * HORIZON, bursts):
        pass

    node = clock["node"] = node_with(*cluster_pods())
    for number in node.run(3 * HORIZON, bursts):
        if number == 119:
            break
    asyncio.run(Checkpointer(str(tmp_path), "n1", node.observer.server, node.observer.evaluation).save())
    second = clock["node"] = node_with(*cluster_pods())
    second.now, second.boot_seconds = node.now, node.boot_seconds
    Checkpointer(str(tmp_path), "n1", second.observer.server, second.observer.evaluation).restore()
    for _ in second.run(3 * HORIZON - 120 * 10, lambda step: bursts(step + 120)):
        pass
    before, after = (each.report()["prediction"]["evaluation"] for each in (steady, second))
    assert after == before
    assert after[0]["cpu"]["forecasts"] == 2


@pytest.mark.slow
def test_a_failing_evaluation_does_not_stop_the_next_one():
    node = node_with(*cluster_pods())
    for _ in node.run(60, bursts):
        pass
    node.observer.evaluation.forecast.peaks["borg-default"] = {}
    with pytest.raises(KeyError):
        for _ in node.run(2 * HORIZON, bursts):
            pass
    for _ in node.run(2 * HORIZON, bursts):
        pass
    assert node.observer.evaluation.records["borg-default"].scores[Resource.CPU].forecasts >= 1


@pytest.mark.slow
def test_the_agent_evaluates_what_the_spec_names(monkeypatch):
    node = node_with(*cluster_pods())
    agent = Agent(KoordletSettings(node_name="n1", state_dir=""), node.observer, CollectorRegistry())
    agent.view = node.cluster
    seen = []
    monkeypatch.setattr(NodeObserver, "evaluate", lambda *arguments: seen.append(arguments))
    agent._train()
    ((_, now, cluster, plan, boot_seconds),) = seen
    assert cluster is node.cluster
    assert plan == Plan(tuple(COMPARED), spec_in_force.predict_parameters(node.policy))
    assert plan.horizon_seconds == HORIZON
    assert abs(now - time.time()) < 60
    assert abs(boot_seconds - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60


# Metrics


def exported(registry):
    return {
        (sample.name.removeprefix("koordlet_evaluation_"), *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


@pytest.mark.slow
def test_the_metrics_are_those_of_the_report():
    node = node_with(*cluster_pods())
    registry = CollectorRegistry()
    registry.register(EvaluationCollector(node.observer.evaluation, node.observer.server))
    assert exported(registry) == dict.fromkeys([("dropped_forecasts_total", reason) for reason in Dropped], 0)
    for _ in node.run(60, bursts):
        pass
    assert exported(registry)["closed_forecasts_total", "n-sigma-v2", "cpu", "violation"] == 0
    for _ in node.run(4 * HORIZON, bursts):
        pass
    found = exported(registry)
    for entry in node.report()["prediction"]["evaluation"]:
        for resource in ("cpu", "memory"):
            of, scores = (entry["predictor"], resource), entry[resource]
            assert found["forecasts", *of] == pytest.approx(scores["forecasts"], abs=0.06)
            assert found["violations_ratio", *of] == pytest.approx(scores["violationPercent"] / 100, abs=1e-4)
            assert found["savings_ratio", *of] == pytest.approx(scores["savingsPercent"] / 100, abs=1e-4)
            severity = scores.get("severityPercent")
            assert found.get(("severity_ratio", *of)) == (severity and pytest.approx(severity / 100, abs=1e-4))
            outcomes = [found["closed_forecasts_total", *of, outcome] for outcome in ("kept", "violation")]
            assert sum(outcomes) == 4
            assert (outcomes[1] > 0) == (scores["violationPercent"] > 0)

"""What a tick measures, what it computes again only after a change, and what it trains, evaluates and calibrates."""

from __future__ import annotations

import dataclasses
import json

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodTable
from koordlet.collectors.pod_usage import CONTAINER_TICKS
from koordlet.metrics import debug_pages
from koordlet.prediction import evaluation
from koordlet.prediction.peaks import NoPrediction
from koordlet.samples import SYSTEM, Resource, UsageSample
from tests.host_trees.plain_files import V2
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


def test_containers_are_not_measured_without_the_debug_pages(tmp_path):
    node = with_container(tmp_path)
    node.run(3 * CONTAINER_TICKS)
    statistics = node.observer.collector.statistics
    assert (statistics.groups, statistics.open_files) == (1, 2)
    assert page_of(node)["containers"] is None
    node.observer.collector.close()


def test_containers_are_measured_for_the_debug_pages(tmp_path):
    node = with_container(tmp_path, measures_containers=True)
    node.run(3 * CONTAINER_TICKS)
    assert node.observer.collector.statistics.groups == 2
    (series,) = page_of(node)["containers"]["series"]
    assert (series["kind"], series["identity"]) == ("container", CID)
    node.observer.collector.close()


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

"""What an observer does before anything is known of the cluster, and at a small step of the clock."""

from __future__ import annotations

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster import spec_in_force
from koordlet.prediction import evaluation
from koordlet.samples import SYSTEM, SeriesKey, SeriesKind
from tests.host_trees.plain_files import V2
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod

PROD = SeriesKey(SeriesKind.CLASS, PriorityClass.PROD)


@pytest.fixture
def node(tmp_path):
    made = OneNode(tmp_path, StaticCluster(bound_pod("a")))
    made.pod_cores = {"a": 0.5}
    yield made
    made.observer.collector.close()


def test_the_capacity_of_the_machine_is_that_of_its_proc(node):
    node.run(1)
    assert node.observer.machine_capacity() == (16_000, 16 * GIB)


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


def test_where_pods_may_be_missing_those_that_are_measured_are_no_system(node):
    node.cluster.may_lack_pods = True
    node.run(3)
    assert node.observer.newest[SYSTEM].cpu_cores == pytest.approx(3.5)


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
    node.observer.evaluate(node.now, node.cluster, evaluation.Plan.of(node.policy, parameters), 1000.0)
    return bool(asked)


@pytest.mark.parametrize("done", [calibrated, evaluated])
@pytest.mark.parametrize(("generation", "synced"), [(1, True), (None, True), (1, False), (None, False)])
def test_nothing_is_calibrated_or_forecast_before_pods_and_spec_are_known(node, done, generation, synced):
    node.cluster.generation, node.cluster.pods.synced = generation, synced
    assert done(node) is (generation is not None and synced)


def test_each_training_is_recorded_with_its_time_and_its_parameters(node):
    node.run(60)
    assert list(node.observer.trained_at_seconds) == [node.now - 30, node.now]
    other = node.policy.model_copy(update={"cpu_half_life_seconds": 3600})
    parameters = spec_in_force.predict_parameters(other)
    seen = []
    configure = node.observer.server.configure
    node.observer.server.configure = lambda given: seen.append(given) or configure(given)
    node.observer.train(node.now, parameters)
    assert seen == [parameters]


def test_trainings_of_half_an_hour_are_recorded(tmp_path):
    node = OneNode(tmp_path, StaticCluster())
    parameters = spec_in_force.predict_parameters(node.policy)
    for number in range(70):
        node.observer.train(node.now + 30 * number, parameters)
    assert len(node.observer.trained_at_seconds) == 60
    node.observer.collector.close()


@pytest.mark.parametrize(("step", "lines"), [(0.25, 0), (0.5, 1), (-0.5, 1), (-0.25, 0)])
def test_a_clock_that_is_set_by_half_a_second_moves_the_cached_samples(node, caplog, step, lines):
    node.run(1)
    node.observer.observe(node.now + 1, node.cluster, 5000.0)
    node.observer.observe(node.now + 2 + step, node.cluster, 5001.0)
    assert [record.message.partition(" by ")[0] for record in caplog.records] == ["the clock was set"] * lines


def test_steps_of_the_clock_that_are_small_add_up(node, caplog):
    node.run(1)
    for second in range(4):
        node.observer.observe(node.now + second * 1.25, node.cluster, 5000.0 + second)
    assert len(caplog.records) == 1
    assert "by 0.5 s" in caplog.text

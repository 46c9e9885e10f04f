"""Tests of fit, scores and sampling by kube-scheduler's rules."""

import numpy as np
import pytest

from scheduler_plugin.simulation import kube_scheduler_model
from scheduler_plugin.simulation.kube_scheduler_model import (
    CannotModel,
    Due,
    KubeSchedulerModel,
    SchedulingQueue,
    Weights,
)
from tests.scheduler_plugin import factories

GIB = 1024**3
ONLY_LEAST, ONLY_BALANCED = Weights(1, 0, 1), Weights(0, 1, 1)


def model(*nodes):
    return KubeSchedulerModel(list(nodes))


def test_a_node_is_full_if_the_requests_would_exceed_allocatable():
    two = model(factories.node("a", cpu="4", memory="8Gi"), factories.node("b", cpu="2", memory="8Gi"))
    two.add(0, {"cpu": 3000})
    misfits = two.misfits({"cpu": 1001, "memory": 8 * GIB})
    assert {reason: nodes.tolist() for reason, nodes in misfits.items()} == {"Insufficient cpu": [True, False]}
    assert two.misfits({"cpu": 1000}) == {}
    two.add(0, {"cpu": 3000}, -1)
    assert two.misfits({"cpu": 1001}) == {}


def test_an_unknown_resource_fits_nowhere_and_the_number_of_pods_is_limited():
    one = model(factories.node("a", pods="1"))
    assert one.misfits({"example.com/gpu": 1})["Insufficient example.com/gpu"].tolist() == [True]
    one.add(0, {})
    assert one.misfits({})["Too many pods"].tolist() == [True]


def test_scores_the_worked_example():
    # 10 cores, 10 GiB; 3 cores and 1 GiB requested, the pod requests 2 cores and 1 GiB:
    # least (50 + 80) / 2 = 65; balanced 1 - |0.5 - 0.2| / 2 = 0.85
    one = model(factories.node("a", cpu="10", memory="10Gi"))
    one.add(0, {"cpu": 3000, "memory": GIB})
    wanted = {"cpu": 2000, "memory": GIB}
    assert one.scores(wanted, np.array([0]), ONLY_LEAST).tolist() == [65]
    assert one.scores(wanted, np.array([0]), ONLY_BALANCED).tolist() == [85]
    assert one.scores(wanted, np.array([0]), Weights()).tolist() == [65 + 85]


def test_a_pod_without_requests_counts_defaults_and_has_no_balanced_score():
    # 1 core, 2000 MiB: (90 + 90) / 2
    one = model(factories.node("a", cpu="1", memory="2000Mi"))
    assert one.scores({}, np.array([0]), ONLY_LEAST).tolist() == [90]
    assert one.scores({}, np.array([0]), ONLY_BALANCED).tolist() == [0]


def test_samples_a_small_cluster_completely_and_a_large_one_in_turns():
    small = model(*[factories.node(f"n{index}") for index in range(99)])
    assert small.sample(np.ones(99, dtype=bool)).tolist() == list(range(99))
    large = model(*[factories.node(f"n{index}") for index in range(500)])
    fits = np.ones(500, dtype=bool)
    fits[1] = False
    first, second = large.sample(fits), large.sample(fits)
    assert len(first) == len(second) == 230  # of 500 nodes: (50 - 500 / 125) % = 46 %
    assert first.tolist() == [0, *range(2, 231)]
    assert second[0] == 231


def test_reads_weights_from_kube_schedulers_configuration():
    enabled = [{"name": "NodeResourcesFit", "weight": 7}, {"name": "KoordSuite", "weight": 3}]
    document = {"profiles": [{"plugins": {"score": {"enabled": enabled, "disabled": [{"name": "*"}]}}}]}
    assert kube_scheduler_model.read_weights(document) == Weights(least=7, balanced=0, product=3)
    assert kube_scheduler_model.read_weights({"extenders": [{"weight": 3}]}) == Weights(1, 1, product=30)
    assert kube_scheduler_model.read_weights({"pluginConfig": []}) == Weights(1, 1, 1)


def test_rejects_an_unsupported_scoring_strategy():
    args = {"scoringStrategy": {"type": "MostAllocated"}}
    document = {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}]}
    with pytest.raises(CannotModel, match="MostAllocated"):
        kube_scheduler_model.read_weights(document)


def test_a_departure_wakes_the_pods_that_lack_room_and_the_plugin_wakes_any():
    queue = SchedulingQueue()
    queue.refused(1, 1, 0.0, lacks_room=True)
    queue.refused(2, 1, 0.0, lacks_room=False)
    assert list(queue.pod_left(7.0)) == [Due(1, 7.0)]
    assert list(queue.pod_left(8.0)) == []
    assert queue.remove(2)
    assert not queue.remove(2)


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 1), (2, 2), (4, 8), (5, 10), (10_000, 10)])
def test_a_woken_pod_waits_until_its_backoff_is_over(attempt, seconds):
    queue = SchedulingQueue()
    queue.refused(1, attempt, 100.0, lacks_room=True)
    assert list(queue.pod_left(100.5)) == [Due(1, 100.0 + seconds)]


def test_without_an_event_a_pod_is_tried_after_five_minutes():
    queue = SchedulingQueue()
    assert queue.refused(1, 1, 10.0, lacks_room=True) == 330.0
    assert not queue.flushed(1, 329.0)
    assert queue.flushed(1, 330.0)
    assert not queue.flushed(1, 330.0)

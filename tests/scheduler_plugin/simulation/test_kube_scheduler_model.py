"""Tests of fit, scores and sampling by kube-scheduler's rules."""

import numpy as np
import pytest

from scheduler_plugin.simulation import kube_scheduler_model
from scheduler_plugin.simulation.kube_scheduler_model import CannotModel, KubeSchedulerModel, Weights
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
    assert one.scores(wanted, np.array([0]), Weights()).tolist() == [10 * 65 + 10 * 85]


def test_a_pod_without_requests_counts_defaults_and_has_no_balanced_score():
    # 1 core, 2000 MiB: (90 + 90) / 2
    one = model(factories.node("a", cpu="1", memory="2000Mi"))
    assert one.scores({}, np.array([0]), ONLY_LEAST).tolist() == [90]
    assert one.scores({}, np.array([0]), ONLY_BALANCED).tolist() == [0]


def test_multiplies_the_weight_of_the_extender_by_ten():
    total = kube_scheduler_model.with_extender(np.array([5, 5]), np.array([0, 100]), Weights(1, 1, 2))
    assert total.tolist() == [5, 2005]


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
    scores = {"enabled": [{"name": "NodeResourcesFit", "weight": 7}], "disabled": [{"name": "*"}]}
    document = {"profiles": [{"plugins": {"score": scores}}], "extenders": [{"weight": 3}]}
    assert kube_scheduler_model.read_weights(document) == Weights(least=7, balanced=0, extender=3)
    assert kube_scheduler_model.read_weights({"profiles": [{}]}) == Weights(1, 1, 1)
    assert kube_scheduler_model.read_weights({"pluginConfig": []}) == Weights(10, 10, 1)


def test_rejects_an_unsupported_scoring_strategy():
    args = {"scoringStrategy": {"type": "MostAllocated"}}
    document = {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}]}
    with pytest.raises(CannotModel, match="MostAllocated"):
        kube_scheduler_model.read_weights(document)


def test_balance_is_half_the_difference_of_the_shares_and_perfect_without_one_of_the_resources():
    requested = np.array([[500, 0, 1, 2_000], [1, 1, 1, 1]])
    capacity = np.array([[1_000, 1, 1, 1_000], [4, 4, 4, 0]])
    # shares 0.5 and 0.25; 0 and 0.25; 1 and 0.25; 1 and none
    assert kube_scheduler_model._balanced(requested, capacity).tolist() == [87, 87, 62, 100]


@pytest.mark.parametrize(("count", "scored"), [(100, 100), (150, 100), (1000, 420), (6000, 300)])
def test_at_least_a_hundred_nodes_and_five_percent_are_scored(count, scored):
    # of 1000 nodes (50 - 1000 / 125) % = 42 %; of 6000 only 2 %, so 5 %
    assert len(model(factories.node("a")).sample(np.ones(count, dtype=bool))) == scored


def test_every_resource_that_a_pod_does_not_fit_on_is_a_reason():
    one = model(factories.node("a", cpu="4", memory="8Gi"))
    wanted = {"example.com/none": 0, "example.com/gpu": 1, "cpu": 4001, "memory": 8 * GIB}
    assert list(one.misfits(wanted)) == ["Insufficient example.com/gpu", "Insufficient cpu"]


def test_an_enabled_score_without_a_weight_has_the_weight_1():
    scores = {"enabled": [{"name": "NodeResourcesFit"}]}
    document = {"profiles": [{"plugins": {"score": scores}}], "extenders": [{}]}
    assert kube_scheduler_model.read_weights(document) == Weights(least=1, balanced=1, extender=1)


def test_a_resource_of_some_nodes_fits_there_alone():
    two = model(factories.node("a", **{"example.com/gpu": "2"}), factories.node("b"))
    assert two.misfits({"example.com/gpu": 1})["Insufficient example.com/gpu"].tolist() == [False, True]
    assert two.misfits({"example.com/gpu": 3})["Insufficient example.com/gpu"].tolist() == [True, True]


def test_a_node_takes_110_pods_unless_it_states_another_number():
    one = model(factories.node("a"))
    for _ in range(109):
        one.add(0, {})
    assert one.misfits({}) == {}
    one.add(0, {})
    assert list(one.misfits({})) == ["Too many pods"]

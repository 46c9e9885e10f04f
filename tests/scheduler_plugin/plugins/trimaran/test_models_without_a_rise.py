"""Peaks: nodes whose power is constant, and nodes without a model."""

from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster, metrics, pod

MODELS = {"flat": {"k0": 100, "k1": 1, "k2": 0.01}, "constant": {"k0": 100, "k1": 1, "k2": 0}}


def scores(*names):
    cluster = MeasuredCluster("Peaks", nodePowerModel=MODELS, formula="corrected")
    for name in names:
        cluster.node(name)
    cluster.measure({name: metrics(10.0) for name in names})
    return cluster.scores(pod("1"), list(names))


def test_a_node_whose_power_is_constant_is_the_best():
    assert scores("flat", "constant") == [0, 100]


def test_a_node_without_a_model_is_not_taken_for_one_whose_power_is_constant():
    assert scores("flat", "unknown") == [100, 0]

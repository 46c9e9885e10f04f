"""Each term states its source, or the key and the layer that set it, and a bound whether it binds."""

import pytest

from api_types.kubernetes import pods
from fleet import node_state
from manager.mid_resource.explanation import Term
from manager.slo_config import evaluation

KEY = "midCPUThresholdPercent"


@pytest.mark.parametrize(
    ("source", "key", "binds", "origin"),
    [
        ("calculated", "", None, "calculated"),
        ("calculated", KEY, True, f"{KEY}, cluster; binds"),
        ("calculated", KEY, False, f"{KEY}, cluster; does not bind"),
        ("NodeMetric spec.midColocationPolicy.midFloor", "midFloor", True, "midFloor; binds"),
    ],
)
def test_the_origin_of_a_term(source, key, binds, origin):
    assert node_state.term_origin(Term("any", 9, "", source, "", key, binds), {KEY: "cluster"}) == origin


def test_layers_are_those_of_the_configuration():
    data = {"colocation-config": '{"enable": true, "midCPUThresholdPercent": 50}'}
    found = node_state.mid_layers(evaluation.evaluate(None, data, exists=True), pods.Node())
    assert (found["midCPUThresholdPercent"], found["midMemoryThresholdPercent"]) == ("cluster strategy", "defaults")
    assert node_state.mid_layers(None, pods.Node()) == {}
    assert node_state.mid_layers(evaluation.evaluate(None, {"colocation-config": "{"}, exists=True), pods.Node()) == {}

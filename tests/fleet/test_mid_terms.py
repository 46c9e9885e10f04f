"""Each term states its source, or the key and the layer that set it, and a bound whether it binds."""

import pytest

from api_types.kubernetes import pods
from fleet import mid_terms
from manager.mid_resource.explanation import Term
from manager.slo_config import evaluation

SPEC = "NodeMetric spec.midColocationPolicy"


def terms(**values):
    keys = {"threshold_percent": "midCPUThresholdPercent", "floor": "midFloor", "rise_limit": "midMaxIncreasePercent"}
    sources = {name: f"{SPEC}.{key}" for name, key in keys.items()}
    return {name: Term(name, value, "", sources.get(name, "calculated"), "") for name, value in values.items()}


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("cap", {"reclaimable": 9, "cap": 8, "threshold_percent": 60}, "midCPUThresholdPercent, cluster; binds"),
        (
            "cap",
            {"reclaimable": 9, "cap": 9, "threshold_percent": 60},
            "midCPUThresholdPercent, cluster; does not bind",
        ),
        ("cap", {"reclaimable": 9, "cap": 8}, "binds"),
        ("unused", {"reclaimable": 9, "cap": 8, "unallocated_share": 2, "unused": 9}, "calculated; binds"),
        ("unused", {"reclaimable": 9, "cap": 8, "unallocated_share": 2, "unused": 10}, "calculated; does not bind"),
        ("unused", {"reclaimable": 9, "cap": 8, "unused": 8}, "calculated; does not bind"),
        ("floor", {"floor": 1}, "midFloor; binds"),
        ("floor", {"calculated": 5, "floor": 6}, "midFloor; binds"),
        ("floor", {"calculated": 5, "floor": 5}, "midFloor; does not bind"),
        ("rise_limit", {"rise_limit": 5}, "midMaxIncreasePercent; binds"),
        ("reclaimable", {"reclaimable": 9}, "calculated"),
        ("published", {"published": 9}, "calculated"),
    ],
)
def test_the_origin_of_a_term(name, given, wanted):
    assert mid_terms.origin(name, terms(**given), {"midCPUThresholdPercent": "cluster"}) == wanted


def test_what_is_reclaimable_by_a_fixed_share_is_set_by_its_key():
    given = terms(reclaimable=9) | {"static_percent": Term("static_percent", 30, "", f"{SPEC}.midStatic", "")}
    assert mid_terms.origin("reclaimable", given, {"midStatic": "annotation"}) == "midStatic, annotation"


def test_layers_are_those_of_the_configuration():
    data = {"colocation-config": '{"enable": true, "midCPUThresholdPercent": 50}'}
    found = mid_terms.layers(evaluation.evaluate(None, data, exists=True), pods.Node())
    assert (found["midCPUThresholdPercent"], found["midMemoryThresholdPercent"]) == ("cluster strategy", "defaults")
    assert mid_terms.layers(None, pods.Node()) == {}
    assert mid_terms.layers(evaluation.evaluate(None, {"colocation-config": "{"}, exists=True), pods.Node()) == {}

"""Advice at its limits, the last of several keys, and the work for selectors with many values."""

import json
import math

import pytest

from api_types.colocation import advice, document
from api_types.colocation import selector as node_selector


def read(text):
    found = document.read_config(text if isinstance(text, str) else json.dumps(text))
    assert found.config is not None
    return found


def paths(given):
    return [problem.path for problem in advice.strategy_advice(read(given).config)]


@pytest.mark.parametrize(
    ("key", "most", "more"),
    [
        ("midStaticCPUReservedPercent", 100, 101),
        ("midStaticMemoryReservedPercent", 100, 101),
        ("resourceDiffThreshold", 1, 1.01),
    ],
)
def test_the_largest_useful_value_comes_without_advice(key, most, more):
    assert paths({key: most}) == []
    assert paths({key: more}) == [(key,)]


@pytest.mark.parametrize(
    ("policy", "threshold", "is_advised"),
    [
        ("usageWithPageCache", 70, True),
        ("usageWithPageCache", None, False),
        ("usageWithoutPageCache", 70, False),
        (None, 70, False),
    ],
)
def test_a_memory_threshold_has_no_effect_only_while_the_page_cache_counts(policy, threshold, is_advised):
    given = {"metricMemoryCollectPolicy": policy, "midEviction": {"memoryThresholdPercent": threshold}}
    assert (("midEviction", "memoryThresholdPercent") in paths(given)) is is_advised


def test_of_keys_that_differ_in_case_the_one_whose_last_value_comes_last_wins():
    assert read('{"enable": false, "Enable": false, "enable": true}').config.enable is True
    assert read('{"enable": true, "Enable": true, "enable": true, "ENABLE": false}').config.enable is False


def test_a_selector_whose_sets_repeat_late_is_compared_at_a_bounded_number_of_nodes(monkeypatch):
    sizes = (7, 11, 13, 17)
    assert math.lcm(*sizes) == 17_017
    wide = node_selector.NodeSelector.model_validate(
        {
            "matchExpressions": [
                {"key": f"l{size}", "operator": "In", "values": [str(value) for value in range(size)]} for size in sizes
            ]
        }
    )
    asked = []
    monkeypatch.setattr(node_selector, "matches", lambda *_: bool(asked.append(1)))
    assert node_selector.overlapping([wide]) == []
    assert len(asked) <= 256


def of_labels(**labels):
    return node_selector.NodeSelector.model_validate({"matchLabels": labels})


def test_overlaps_of_later_selectors_are_found_after_equal_ones():
    selectors = [of_labels(a="1"), of_labels(a="1"), of_labels(b="1"), of_labels(b="1")]
    assert node_selector.overlapping(selectors) == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("given", "is_empty"),
    [
        ({}, True),
        ({"matchLabels": {}, "matchExpressions": []}, True),
        ({"matchLabels": {"a": "1"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, False),
    ],
)
def test_an_entry_whose_selector_has_no_requirement_comes_with_advice(given, is_empty):
    found = read({"nodeConfigs": [{"name": "all", "nodeSelector": given, "enable": True}], "enable": True})
    paths = [problem.path for problem in advice.selector_advice(found.config)]
    assert paths == [("nodeConfigs", 0, "nodeSelector")] * is_empty


@pytest.mark.parametrize(("labels", "is_match"), [({"a": "1"}, False), ({"b": "1"}, False), ({"a": "", "b": ""}, True)])
def test_every_expression_of_a_selector_has_to_match(labels, is_match):
    expressions = [{"key": key, "operator": "Exists"} for key in "ab"]
    both = node_selector.NodeSelector.model_validate({"matchExpressions": expressions})
    assert node_selector.matches(both, labels) is is_match

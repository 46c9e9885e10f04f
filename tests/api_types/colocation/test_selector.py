import math

import pytest

from api_types.colocation import selector as node_selector
from api_types.colocation.selector import NodeSelector


def selector(**wire):
    return NodeSelector.model_validate(wire)


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values) or None}


@pytest.mark.parametrize(
    ("given", "labels", "expected"),
    [
        (selector(matchLabels={"a": "1"}), {"a": "1", "b": "2"}, True),
        (selector(matchLabels={"a": "1"}), {"a": "2"}, False),
        (selector(matchExpressions=[expression("a", "In", "1", "2")]), {"a": "2"}, True),
        (selector(matchExpressions=[expression("a", "In", "1")]), {}, False),
        (selector(matchExpressions=[expression("a", "NotIn", "1")]), {}, True),
        (selector(matchExpressions=[expression("a", "NotIn", "1")]), {"a": "1"}, False),
        (selector(matchExpressions=[expression("a", "Exists")]), {"a": ""}, True),
        (selector(matchExpressions=[expression("a", "DoesNotExist")]), {"a": ""}, False),
        (selector(matchLabels={"a": "1"}, matchExpressions=[expression("b", "Exists")]), {"a": "1"}, False),
        (selector(), {"a": "1"}, True),
        (None, {"a": "1"}, False),
    ],
)
def test_a_selector_matches_as_kubernetes_does(given, labels, expected):
    assert node_selector.matches(given, labels) is expected


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        (expression("a", "out", "1"), "matchExpressions[0].operator"),
        (expression("a", "In"), "matchExpressions[0].values"),
        (expression("a", "Exists", "1"), "matchExpressions[0].values"),
        (expression("", "Exists"), "matchExpressions[0].key"),
    ],
)
def test_an_invalid_selector_names_its_fault_and_matches_no_node(broken, path):
    given = selector(matchExpressions=[broken])
    found = node_selector.fault(given)
    assert found is not None
    assert found[0] == path
    assert not node_selector.matches(given, {"a": "1"})


@pytest.mark.parametrize(
    ("selectors", "pairs"),
    [
        ([selector(matchLabels={"a": "1"}), selector(matchLabels={"a": "1", "b": "1"})], [(0, 1)]),
        ([selector(matchLabels={"a": "1"}), selector(matchLabels={"a": "2"})], []),
        ([selector(matchLabels={"a": "1"}), selector(matchLabels={"b": "1"})], []),
        ([selector(matchLabels={"a": "1"}), selector(matchExpressions=[expression("a", "Exists")])], [(0, 1)]),
        ([selector(matchExpressions=[expression("a", "In", "1", "2")]), selector(matchLabels={"a": "2"})], [(0, 1)]),
        ([selector(matchLabels={"a": "1"}), selector(matchLabels={"a": "2"}), selector()], [(0, 2), (1, 2)]),
        ([None, selector(matchLabels={"a": "1"})], []),
        ([], []),
    ],
)
def test_overlap_is_found_in_the_document_alone(selectors, pairs):
    assert node_selector.overlapping(selectors) == pairs


def test_compares_a_selector_with_many_values_quickly():
    values = [str(value) for value in range(50)]
    wide = selector(matchExpressions=[expression(key, "In", *values) for key in "abcdefghij"])  # 50^10 combinations
    assert node_selector.overlapping([wide, selector(matchLabels={"a": "49"})]) == [(0, 1)]


def test_limits_the_number_of_reported_pairs():
    found = node_selector.overlapping([selector(matchLabels={"a": "1"})] * 1_000)
    assert found[:2] == [(0, 1), (0, 2)]
    assert len(found) == 10_000


def test_compares_an_enormous_document_quickly(monkeypatch):
    asked = []
    monkeypatch.setattr(node_selector, "matches", lambda *_: bool(asked.append(1)))
    assert node_selector.overlapping([selector(matchLabels={"a": str(value)}) for value in range(3_000)]) == []
    assert len(asked) < 1_010_000  # of 9 million


def test_a_real_node_shows_a_conflict_that_the_document_does_not():
    selectors = [selector(matchLabels={"a": "1"}), selector(matchLabels={"b": "1"})]
    assert node_selector.overlapping(selectors) == []
    assert node_selector.matching(selectors, {"a": "1", "b": "1"}) == (0, 1)
    assert node_selector.matching(selectors, {"a": "1", "b": "2"}) == (0,)


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

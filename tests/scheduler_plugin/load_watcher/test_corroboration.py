from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.load_watcher import corroboration
from scheduler_plugin.load_watcher.records import Metadata, Metric, NodeMetrics


def node(value: float, **other: object) -> NodeMetrics:
    return NodeMetrics([Metric(type="CPU", operator="AVG", value=value)], **other)  # type: ignore[arg-type]


def joined(*values: float) -> float:
    answers = {f"provider-{index}": {"n": node(value)} for index, value in enumerate(values)}
    return corroboration.corroborate(answers).nodes["n"].metrics[0].value


@pytest.mark.parametrize(("values", "answer"), [((30,), 30), ((30, 60), 60), ((30, 35, 90), 35), ((0, 1, 2, 3), 2)])
def test_g7_the_middle_of_what_providers_say_is_taken_and_of_two_the_larger(
    values: tuple[float, ...], answer: float
) -> None:
    assert joined(*values) == answer


@given(honest=st.lists(st.floats(20, 30), min_size=2, max_size=2), wild=st.floats(0, 100))
def test_one_of_three_providers_cannot_move_the_answer_out_of_what_the_others_say(
    honest: list[float], wild: float
) -> None:
    assert min(honest) <= joined(*honest, wild) <= max(honest)


def test_a_provider_that_knows_nothing_of_a_node_takes_nothing_away() -> None:
    answers = {"first": {"a": node(10)}, "second": {"b": node(20)}}
    both = corroboration.corroborate(answers)
    assert {name: found.metrics[0].value for name, found in both.nodes.items()} == {"a": 10, "b": 20}
    assert not both.disagreements


def test_a_disagreement_names_node_metric_and_both_values() -> None:
    answers = {"NodeMetric": {"a": node(10)}, "Prometheus": {"a": node(20.5)}}
    assert corroboration.corroborate(answers).disagreements == ["node a: CPU AVG: NodeMetric 10.0, Prometheus 20.5"]


def test_tags_and_metadata_come_from_the_provider_named_first() -> None:
    answers = {
        "first": {"a": node(1, tags={"rack": "1"}, metadata=Metadata("dc-1"))},
        "second": {"a": node(2, tags={"rack": "2"})},
    }
    found = corroboration.corroborate(answers).nodes["a"]
    assert (found.tags, found.metadata, found.metrics[0].value) == ({"rack": "1"}, Metadata("dc-1"), 2)

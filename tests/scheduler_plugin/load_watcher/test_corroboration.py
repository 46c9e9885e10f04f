from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.load_watcher import corroboration
from scheduler_plugin.load_watcher.records import Metadata, Metric, NodeMetrics, Window


def node(value: float, **other: object) -> NodeMetrics:
    return NodeMetrics([Metric(type="CPU", operator="AVG", value=value)], **other)  # type: ignore[arg-type]


def joined(*values: float) -> float:
    results = {f"provider-{index}": {"n": node(value)} for index, value in enumerate(values)}
    return corroboration.corroborate(results).nodes["n"].metrics[0].value


@pytest.mark.parametrize(("values", "result"), [((30,), 30), ((30, 60), 60), ((30, 35, 90), 35), ((0, 1, 2, 3), 2)])
def test_g7_uses_the_median_and_of_two_values_the_larger(values: tuple[float, ...], result: float) -> None:
    assert joined(*values) == result


@given(honest=st.lists(st.floats(20, 30), min_size=2, max_size=2), wild=st.floats(0, 100))
def test_one_of_three_providers_cannot_move_the_result_out_of_the_range_of_the_others(
    honest: list[float], wild: float
) -> None:
    assert min(honest) <= joined(*honest, wild) <= max(honest)


def test_ignores_a_provider_without_data_of_a_node() -> None:
    results = {"first": {"a": node(10)}, "second": {"b": node(20)}}
    both = corroboration.corroborate(results)
    assert {name: found.metrics[0].value for name, found in both.nodes.items()} == {"a": 10, "b": 20}
    assert not both.disagreements


def test_a_disagreement_names_the_node_the_metric_and_both_values() -> None:
    results = {"NodeMetric": {"a": node(10)}, "Prometheus": {"a": node(20.5)}}
    assert corroboration.corroborate(results).disagreements == ["node a: CPU AVG: NodeMetric 10.0, Prometheus 20.5"]


def test_tags_and_metadata_come_from_the_first_provider() -> None:
    results = {
        "first": {"a": node(1, tags={"rack": "1"}, metadata=Metadata("dc-1"))},
        "second": {"a": node(2, tags={"rack": "2"})},
    }
    found = corroboration.corroborate(results).nodes["a"]
    assert (found.tags, found.metadata, found.metrics[0].value) == ({"rack": "1"}, Metadata("dc-1"), 2)


def test_a_resource_that_one_provider_rejects_is_rejected_unless_another_has_it() -> None:
    rejected = NodeMetrics(rejected=["CPU", "Memory"])
    both = corroboration.corroborate({"first": {"n": rejected}, "second": {"n": node(20)}})
    assert both.nodes == {"n": node(20, rejected=["Memory"])}


def test_a_joined_node_is_as_old_as_the_oldest_of_its_values() -> None:
    results = {
        "first": {"n": node(10, window=Window("15m", 100, 1000))},
        "second": {"n": node(20, window=Window("", 880, 890))},
        "rejected": {"n": NodeMetrics(rejected=["CPU"], window=Window("15m", 0, 1))},
    }
    assert corroboration.corroborate(results).nodes["n"].window == Window("15m", 100, 890)

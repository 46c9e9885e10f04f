from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.load_watcher import analysis
from scheduler_plugin.load_watcher.records import Metric, NodeMetrics, Window


def node(value: float, **other: object) -> NodeMetrics:
    return NodeMetrics([Metric(type="CPU", operator="AVG", value=value)], **other)  # type: ignore[arg-type]


def joined(*values: float) -> float:
    results = {f"provider-{index}": {"n": node(value)} for index, value in enumerate(values)}
    return analysis.corroborate(results).nodes["n"].metrics[0].value


@pytest.mark.parametrize(("values", "result"), [((30,), 30), ((30, 60), 60), ((30, 35, 90), 35), ((0, 1, 2, 3), 2)])
def test_g7_uses_the_median_and_of_two_values_the_larger(values: tuple[float, ...], result: float) -> None:
    assert joined(*values) == result


@given(honest=st.lists(st.floats(20, 30), min_size=2, max_size=2), wild=st.floats(0, 100))
def test_one_of_three_providers_cannot_move_the_result_out_of_the_range_of_the_others(
    honest: list[float], wild: float
) -> None:
    assert min(honest) <= joined(*honest, wild) <= max(honest)


def test_a_disagreement_names_the_node_the_metric_and_both_values() -> None:
    results = {"NodeMetric": {"a": node(10)}, "Prometheus": {"a": node(20.5)}}
    assert analysis.corroborate(results).disagreements == [
        "node a: CPU mean: NodeMetric 10.0 (AVG), Prometheus 20.5 (AVG)"
    ]


def test_a_resource_that_one_provider_rejects_is_rejected_unless_another_has_it() -> None:
    rejected = NodeMetrics(rejected=["CPU", "Memory"])
    both = analysis.corroborate({"first": {"n": rejected}, "second": {"n": node(20)}})
    assert both.nodes == {"n": node(20, rejected=["Memory"])}


def test_a_joined_node_is_as_old_as_the_oldest_of_its_values() -> None:
    results = {
        "first": {"n": node(10, window=Window("15m", 100, 1000))},
        "second": {"n": node(20, window=Window("", 880, 890))},
        "rejected": {"n": NodeMetrics(rejected=["CPU"], window=Window("15m", 0, 1))},
    }
    assert analysis.corroborate(results).nodes["n"].window == Window("15m", 100, 890)


def test_a_current_value_compares_with_the_mean_of_another_provider() -> None:
    current = NodeMetrics([Metric(type="CPU", operator="Latest", value=5)])
    both = analysis.corroborate({"NodeMetric": {"n": node(80)}, "KubernetesMetricsServer": {"n": current}})
    assert both.nodes == {"n": node(80)}
    assert both.disagreements == ["node n: CPU mean: NodeMetric 80.0 (AVG), KubernetesMetricsServer 5.0 (Latest)"]
    swapped = analysis.corroborate({"KubernetesMetricsServer": {"n": current}, "NodeMetric": {"n": node(4)}})
    assert swapped.nodes == {"n": node(5)}
    assert not swapped.disagreements


def test_records_of_other_types_compare_by_name_and_keep_their_number() -> None:
    def disks(*values: float) -> NodeMetrics:
        sent = Metric("sent", "Bandwidth", "AVG", "15m", 1e9)
        return NodeMetrics([sent, *(Metric("disk", "Storage", "AVG", "15m", value) for value in values)])

    both = analysis.corroborate({"first": {"n": disks(1, 20)}, "second": {"n": disks(1, 30)}})
    assert [metric.value for metric in both.nodes["n"].metrics] == [1e9, 1, 30]
    assert both.disagreements == ["node n: Storage disk: first 20.0 (AVG), second 30.0 (AVG)"]


@pytest.mark.parametrize(
    ("known", "left"),
    [
        (NodeMetrics(rejected=["CPU"]), NodeMetrics(rejected=["CPU"])),
        (NodeMetrics(), NodeMetrics()),
        (node(10), node(20)),  # delivered without a deviation, as by an older agent
        (None, node(20)),
    ],
)
def test_a_mean_without_deviation_does_not_replace_dropped_or_missing_values(
    known: NodeMetrics | None, left: NodeMetrics
) -> None:
    deviating = NodeMetrics([Metric(type="CPU", operator=operator, value=10) for operator in ("AVG", "STD")])
    prometheus = {"deviating": deviating} | ({} if known is None else {"n": known})
    both = analysis.corroborate({"Prometheus": prometheus, "other": {"n": node(20)}})
    assert both.nodes["n"] == left

"""Values at the limits of the analysis and of the corroboration, and records beside each other."""

from __future__ import annotations

import pytest

from scheduler_plugin.load_watcher import analysis, corroboration
from scheduler_plugin.load_watcher.analysis import AnomalyKind
from scheduler_plugin.load_watcher.records import Metric, NodeMetrics, Window


def cpu(value: float, operator: str = "AVG", kind: str = "CPU") -> Metric:
    return Metric(type=kind, operator=operator, value=value)


def found(node: NodeMetrics, **given: object) -> list[AnomalyKind]:
    known: dict[str, object] = {"unchanged_seconds": {}, "shorter": {}, "expected": ()} | given
    analysed = analysis.analyse("15m", {"n": node}, **known)  # type: ignore[arg-type]
    return [anomaly.kind for anomaly in analysed.anomalies]


def of_five_minutes(*metrics: Metric, window: Window | None = None) -> dict[str, dict[str, NodeMetrics]]:
    node = NodeMetrics(list(metrics), window=window) if window else NodeMetrics(list(metrics))
    return {"10m": {}, "5m": {"n": node}}


@pytest.mark.parametrize(
    "metrics",
    [
        [cpu(0.0, kind="Bandwidth")],
        [cpu(0.5, kind="Bandwidth")],
        [cpu(105.0)],
        [cpu(50.0), cpu(52.5, "STD")],
    ],
)
def test_keeps_the_lowest_and_the_highest_possible_values(metrics: list[Metric]) -> None:
    assert found(NodeMetrics(metrics)) == []


def test_a_mean_of_another_type_does_not_complete_a_deviation() -> None:
    assert found(NodeMetrics([cpu(3.0, "STD"), cpu(5.0, kind="Bandwidth")])) == [AnomalyKind.INCOMPLETE]


def test_a_node_with_one_value_above_0_is_frozen() -> None:
    node = NodeMetrics([cpu(20.0), cpu(0.0, kind="Memory")])
    assert found(node, unchanged_seconds={"n": 600.0}) == [AnomalyKind.FROZEN]


def test_a_deviation_does_not_contradict_a_mean() -> None:
    assert found(NodeMetrics([cpu(50.0), cpu(5.0, "STD")]), shorter=of_five_minutes(cpu(90.0))) == []


@pytest.mark.parametrize(("mean", "is_possible"), [(76.0, True), (77.0, False)])
def test_the_rest_of_a_window_was_at_most_full(mean: float, is_possible: bool) -> None:
    # 10 of 15 minutes at 100 % beside 5 idle ones make 66.7 %; 10 points of slack
    kinds = [] if is_possible else [AnomalyKind.CONTRADICTION]
    assert found(NodeMetrics([cpu(mean)]), shorter=of_five_minutes(cpu(0.0))) == kinds


@pytest.mark.parametrize(("start", "is_inside"), [(100, True), (400, True), (700, True), (99, False), (701, False)])
def test_only_a_window_inside_of_another_contradicts_it(start: int, is_inside: bool) -> None:
    short = of_five_minutes(cpu(90.0), window=Window("5m", start, start + 300))
    kinds = [AnomalyKind.CONTRADICTION] if is_inside else []
    assert found(NodeMetrics([cpu(5.0)], window=Window("15m", 100, 1000)), shorter=short) == kinds


def test_a_mean_compares_with_the_mean_of_its_own_type() -> None:
    assert found(NodeMetrics([cpu(95.0)]), shorter=of_five_minutes(cpu(90.0), cpu(10.0, kind="Memory"))) == []


@pytest.mark.parametrize("first", ["AVG", "Latest"])
def test_the_mean_of_a_provider_counts_before_its_current_value(first: str) -> None:
    both = sorted([cpu(80.0), cpu(5.0, "Latest")], key=lambda metric: metric.operator != first)
    joined = corroboration.corroborate({"a": {"n": NodeMetrics(both)}, "b": {"n": NodeMetrics([cpu(70.0)])}})
    assert joined.nodes["n"].metrics == [cpu(80.0)]
    assert not joined.disagreements


@pytest.mark.parametrize(
    ("kind", "low", "high", "agree"),
    [
        ("CPU", 10.0, 20.0, True),
        ("CPU", 10.0, 20.1, False),
        ("Bandwidth", 9.0, 10.0, True),
        ("Bandwidth", 8.9, 10.0, False),
    ],
)
def test_providers_agree_up_to_ten_points_or_ten_percent_of_the_larger_value(
    kind: str, low: float, high: float, agree: bool
) -> None:
    results = {name: {"n": NodeMetrics([cpu(value, kind=kind)])} for name, value in (("a", low), ("b", high))}
    assert (not corroboration.corroborate(results).disagreements) is agree

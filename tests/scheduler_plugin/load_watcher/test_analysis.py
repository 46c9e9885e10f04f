from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from scheduler_plugin.load_watcher import analysis
from scheduler_plugin.load_watcher.analysis import AnomalyKind
from scheduler_plugin.load_watcher.records import Metric, NodeMetrics

Nodes = Mapping[str, NodeMetrics]


def cpu(value: float, operator: str = "AVG", kind: str = "CPU") -> Metric:
    return Metric(type=kind, operator=operator, value=value)


def analyse(nodes: Nodes, duration: str = "15m", **given: object) -> analysis.Analysed:
    known: dict[str, object] = {"unchanged_seconds": {}, "shorter": {}, "expected": ()} | given
    return analysis.analyse(duration, nodes, **known)  # type: ignore[arg-type]


def kinds(analysed: analysis.Analysed) -> list[AnomalyKind]:
    return [anomaly.kind for anomaly in analysed.anomalies]


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        (cpu(math.nan), AnomalyKind.NOT_A_NUMBER),
        (cpu(math.inf), AnomalyKind.NOT_A_NUMBER),
        (cpu(-0.1), AnomalyKind.OUT_OF_RANGE),
        (cpu(106.0), AnomalyKind.OUT_OF_RANGE),
        (cpu(53.0, "STD"), AnomalyKind.OUT_OF_RANGE),
        (cpu(-1.0, kind="Bandwidth"), AnomalyKind.OUT_OF_RANGE),
        (cpu(2.0**63, kind="Energy"), AnomalyKind.OUT_OF_RANGE),
    ],
)
def test_g8_and_b3_drops_and_reports_an_impossible_value_and_keeps_the_rest(metric: Metric, kind: AnomalyKind) -> None:
    analysed = analyse({"n": NodeMetrics([metric, cpu(30.0, kind="Memory")]), "other": NodeMetrics([cpu(10.0)])})
    assert kinds(analysed) == [kind]
    assert "node n:" in analysed.anomalies[0].text
    assert analysed.nodes["n"].metrics == [cpu(30.0, kind="Memory")]
    assert analysed.nodes["other"].metrics == [cpu(10.0)]


def test_g8_a_node_with_unchanged_values_for_ten_minutes_is_frozen() -> None:
    same = {"n": NodeMetrics([cpu(20.0), cpu(40.0, kind="Memory")])}
    assert kinds(analyse(same, unchanged_seconds={"n": 599.0})) == []
    analysed = analyse(same, unchanged_seconds={"n": 600.0})
    assert kinds(analysed) == [AnomalyKind.FROZEN]
    assert analysed.nodes == {"n": NodeMetrics(rejected=["CPU", "Memory"])}


@pytest.mark.parametrize(
    ("cpu_percent", "memory_percent", "remaining"),
    [(0.0, 0.0, []), (5.0, 0.0, ["CPU"]), (0.0, 5.0, ["CPU", "Memory"]), (0.0, None, ["CPU"])],
)
def test_a_running_node_uses_memory_so_zero_is_absent_and_a_cpu_of_zero_beside_it(
    cpu_percent, memory_percent, remaining
):
    metrics = [cpu(cpu_percent, "Latest")]
    if memory_percent is not None:
        metrics.append(cpu(memory_percent, "Latest", kind="Memory"))
    analysed = analyse({"n": NodeMetrics(metrics)}, expected=("n",) if not remaining else ())
    assert [metric.type for metric in analysed.nodes["n"].metrics] == remaining
    dropped = len(metrics) - len(remaining)
    assert kinds(analysed)[:dropped] == [AnomalyKind.ZERO] * dropped


def test_a_node_with_changing_or_zero_values_is_not_frozen() -> None:
    same = {"n": NodeMetrics([cpu(20.0), cpu(40.0, kind="Memory")])}
    idle = {"n": NodeMetrics([cpu(0.0)])}
    assert not analyse(same, unchanged_seconds={"another": 3600.0}).anomalies
    assert not analyse(idle, unchanged_seconds={"n": 3600.0}).anomalies


@pytest.mark.parametrize(
    ("long", "short", "is_possible"), [(30, 90, True), (19, 90, False), (80, 0, False), (70, 0, True)]
)
def test_g8_drops_a_mean_that_contradicts_a_shorter_window(long: float, short: float, is_possible: bool) -> None:
    # 5 of 15 minutes at 90 % make a mean of at least 30 %; at 0 % one of at most 67 %; 10 points of slack
    analysed = analyse({"n": NodeMetrics([cpu(long)])}, shorter={"5m": {"n": NodeMetrics([cpu(short)])}})
    assert kinds(analysed) == ([] if is_possible else [AnomalyKind.CONTRADICTION])
    assert analysed.nodes["n"] == (NodeMetrics([cpu(long)]) if is_possible else NodeMetrics(rejected=["CPU"]))


def test_g3_reports_an_existing_node_without_measurements() -> None:
    both = NodeMetrics([cpu(1.0), cpu(1.0, kind="Memory")])
    analysed = analyse({"a": both, "b": NodeMetrics([])}, expected=["a", "b", "c"])
    assert [(anomaly.kind, anomaly.node) for anomaly in analysed.anomalies] == [
        (AnomalyKind.MISSING, "b"),
        (AnomalyKind.MISSING, "c"),
    ]


@pytest.mark.parametrize("wrong", [cpu(106.0), cpu(53.0, "STD"), cpu(math.nan, "STD")])
def test_a_wrong_mean_or_deviation_drops_every_record_of_its_resource(wrong: Metric) -> None:
    right = [cpu(30.0, "STD" if wrong.operator == "AVG" else "AVG"), cpu(7.0, "Latest")]
    memory = [cpu(40.0, kind="Memory"), cpu(2.0, "STD", kind="Memory")]
    analysed = analyse({"n": NodeMetrics([*right, wrong, *memory])})
    assert analysed.nodes == {"n": NodeMetrics(memory, rejected=["CPU"])}


def test_a_mean_without_deviation_is_incomplete_only_for_a_provider_that_has_deviations() -> None:
    nodes = {"n": NodeMetrics([cpu(30.0), cpu(40.0, kind="Memory"), cpu(2.0, "STD", kind="Memory")])}
    assert analyse(nodes).nodes == nodes
    analysed = analyse(nodes, has_deviation=True)
    assert kinds(analysed) == [AnomalyKind.INCOMPLETE]
    assert [metric.type for metric in analysed.nodes["n"].metrics] == ["Memory", "Memory"]
    assert analyse({"n": NodeMetrics([cpu(30.0, "Latest")])}, has_deviation=True).nodes["n"].metrics


def test_g8_a_resource_without_its_deviation_is_dropped_beside_an_impossible_one() -> None:
    node = NodeMetrics([cpu(20.0), cpu(30.0, kind="Memory"), cpu(math.nan, "STD", kind="Memory")])
    analysed = analyse({"n": node}, has_deviation=True)
    assert analysed.nodes["n"].rejected == ["CPU", "Memory"]
    assert kinds(analysed) == [AnomalyKind.NOT_A_NUMBER, AnomalyKind.INCOMPLETE]

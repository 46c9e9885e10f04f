from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.load_watcher import analysis, records
from scheduler_plugin.load_watcher.analysis import AnomalyKind
from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot

Nodes = Mapping[str, NodeMetrics]


def cpu(value: float, operator: str = "AVG", kind: str = "CPU") -> Metric:
    return Metric(type=kind, operator=operator, value=value)


def analyse(nodes: Nodes, duration: str = "15m", **given: object) -> analysis.Analysed:
    known: dict[str, object] = {"unchanged_seconds": {}, "shorter": {}, "expected": ()} | given
    return analysis.analyse(duration, nodes, **known)  # type: ignore[arg-type]


def findings(analysed: analysis.Analysed) -> list[AnomalyKind]:
    return [found.finding for found in analysed.found]


@pytest.mark.parametrize(
    ("metric", "finding"),
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
def test_g8_and_b3_an_impossible_value_is_dropped_and_told_and_the_rest_stays(
    metric: Metric, finding: AnomalyKind
) -> None:
    analysed = analyse({"n": NodeMetrics([metric, cpu(30.0, kind="Memory")]), "other": NodeMetrics([cpu(10.0)])})
    assert findings(analysed) == [finding]
    assert "node n:" in analysed.found[0].text
    assert analysed.nodes["n"].metrics == [cpu(30.0, kind="Memory")]
    assert analysed.nodes["other"].metrics == [cpu(10.0)]


@pytest.mark.parametrize("metric", [cpu(0.0), cpu(104.0), cpu(52.0, "STD"), cpu(1e9, kind="Bandwidth"), cpu(7, "")])
def test_what_can_be_stays(metric: Metric) -> None:
    analysed = analyse({"n": NodeMetrics([metric])})
    assert analysed.nodes["n"].metrics == [metric]
    assert not analysed.found


@given(st.lists(st.floats(), max_size=6))
def test_nothing_that_is_no_number_ever_gets_through(values: list[float]) -> None:
    usable = analyse({"n": NodeMetrics([cpu(value) for value in values])}).nodes
    records.encode(Snapshot(data=Data(dict(usable))))
    assert all(0 <= metric.value <= 105 for node in usable.values() for metric in node.metrics)


def test_g8_a_node_whose_values_do_not_move_for_ten_minutes_is_frozen() -> None:
    same = {"n": NodeMetrics([cpu(20.0), cpu(40.0, kind="Memory")])}
    assert findings(analyse(same, unchanged_seconds={"n": 599.0})) == []
    analysed = analyse(same, unchanged_seconds={"n": 600.0})
    assert findings(analysed) == [AnomalyKind.FROZEN]
    assert not analysed.nodes


def test_a_node_that_moves_or_idles_at_zero_is_not_frozen() -> None:
    same = {"n": NodeMetrics([cpu(20.0), cpu(40.0, kind="Memory")])}
    idle = {"n": NodeMetrics([cpu(0.0)])}
    assert not analyse(same, unchanged_seconds={"another": 3600.0}).found
    assert not analyse(idle, unchanged_seconds={"n": 3600.0}).found


def test_g4_a_node_that_the_last_five_minutes_do_not_know_is_dropped_from_longer_windows() -> None:
    both = {name: NodeMetrics([cpu(20.0)]) for name in ("heard", "silent")}
    analysed = analyse(both, recent={"heard"})
    assert analysed.nodes.keys() == {"heard"}
    assert [(found.finding, found.node) for found in analysed.found] == [(AnomalyKind.SILENT, "silent")]
    assert analyse(both, recent=None).nodes.keys() == both.keys()


@pytest.mark.parametrize(
    ("long", "short", "is_possible"), [(30, 90, True), (19, 90, False), (80, 0, False), (70, 0, True)]
)
def test_g8_a_mean_that_a_shorter_window_makes_impossible_is_dropped(
    long: float, short: float, is_possible: bool
) -> None:
    # 5 of 15 minutes at 90 % make a mean of at least 30 %; at 0 % one of at most 67 %; 10 points of slack
    analysed = analyse({"n": NodeMetrics([cpu(long)])}, shorter={"5m": {"n": NodeMetrics([cpu(short)])}})
    assert findings(analysed) == ([] if is_possible else [AnomalyKind.CONTRADICTION])
    assert bool(analysed.nodes) is is_possible


def test_g3_a_node_that_exists_and_is_not_measured_is_told() -> None:
    analysed = analyse({"a": NodeMetrics([cpu(1.0)]), "b": NodeMetrics([])}, expected=["a", "b", "c"])
    assert [(found.finding, found.node) for found in analysed.found] == [
        (AnomalyKind.MISSING, "b"),
        (AnomalyKind.MISSING, "c"),
    ]

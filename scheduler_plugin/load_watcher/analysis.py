"""Analyser of KEP-61: find impossible measurements and drop them.

| anomaly       | what was seen                                                              | what is done        |
|---------------|----------------------------------------------------------------------------|---------------------|
| not-a-number  | NaN or infinite                                                            | record dropped      |
| out-of-range  | below 0, CPU or memory above 105 %, a deviation that no such mean can have | record dropped      |
| frozen        | every value of a node has been the same for ten minutes                    | node dropped        |
| silent        | a longer window has a node that the last five minutes do not have          | node dropped        |
| contradiction | a mean that is impossible next to the mean of a shorter window inside it| record dropped      |
| missing       | a node that exists, without any usable record                              | nothing to drop     |

A node without usable records is not part of the snapshot, and the plugins use a fallback level for it. A node with
remaining records stays in the snapshot.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Metric, MetricType, NodeMetrics, Statistic

HIGHEST_PERCENT: Final = 105.0
"""Of capacity. Counters and clocks differ slightly, so a full node can measure somewhat more than 100 %."""
FROZEN_SECONDS: Final = 600.0
"""Means of CPU and memory of a running node do not repeat to the last bit. This is twice the age at which the reports
of a slow agent or scraper, each fetched several times, are too old anyway."""
WINDOW_SLACK_PERCENT: Final = 10.0
"""Windows are fetched one after the other and end at different seconds; rates have their own windows."""

_BOUNDED: Final = frozenset({MetricType.CPU.value, MetricType.MEMORY.value})
_LARGEST_NUMBER: Final = 1e16  # larger numbers need exponents in JSON, which upstream's client cannot read


class AnomalyKind(enum.StrEnum):
    """Kind of a wrong measurement, a stable code."""

    NOT_A_NUMBER = "not-a-number"
    OUT_OF_RANGE = "out-of-range"
    FROZEN = "frozen"
    SILENT = "silent"
    CONTRADICTION = "contradiction"
    MISSING = "missing"


class Anomaly(NamedTuple):
    """Wrong measurement: its kind, the node and a description."""

    kind: AnomalyKind
    node: str
    text: str


class Analysed(NamedTuple):
    """Usable nodes, and the anomalies."""

    nodes: Mapping[str, NodeMetrics]
    anomalies: Sequence[Anomaly]


def analyse(
    duration: str,
    nodes: Mapping[str, NodeMetrics],
    *,
    unchanged_seconds: Mapping[str, float],
    shorter: Mapping[str, Mapping[str, NodeMetrics]],
    expected: Collection[str],
    recent: Collection[str] | None = None,
) -> Analysed:
    """Drop the impossible measurements of one window of one provider and return the rest with the anomalies.

    `unchanged_seconds`: how long each node has had these values. `shorter`: usable nodes of shorter windows, by
    duration. `expected`: names of the nodes that exist; empty if unknown. `recent`: names of the nodes with data in the
    last five minutes; None before the first fetch of that window.
    """
    anomalies: list[Anomaly] = []
    usable = {}
    for name, node in nodes.items():
        own = (
            _silent(name, recent)
            or _frozen(name, node, unchanged_seconds.get(name, 0.0))
            or [
                problem
                for metric in node.metrics
                if (problem := _impossible(name, metric) or _contradicts(name, duration, metric, shorter))
            ]
        )
        anomalies += [problem.anomaly for problem in own]
        dropped = {id(problem.metric) for problem in own}
        kept = [metric for metric in node.metrics if id(metric) not in dropped]
        if kept and not any(problem.metric is None for problem in own):
            usable[name] = msgspec.structs.replace(node, metrics=kept)
    anomalies += [
        Anomaly(AnomalyKind.MISSING, name, f"node {name} has no usable record")
        for name in expected
        if name not in usable
    ]
    return Analysed(usable, anomalies)


class _Problem(NamedTuple):
    metric: Metric | None
    """None: the whole node."""
    anomaly: Anomaly


def _impossible(name: str, metric: Metric) -> _Problem | None:
    value = metric.value
    if not math.isfinite(value):
        return _problem(AnomalyKind.NOT_A_NUMBER, name, metric, "want a number")
    if metric.type not in _BOUNDED:
        if 0.0 <= value < _LARGEST_NUMBER:
            return None
        return _problem(AnomalyKind.OUT_OF_RANGE, name, metric, "want 0 or more")
    highest = HIGHEST_PERCENT / 2.0 if metric.operator == Statistic.STD else HIGHEST_PERCENT
    if 0.0 <= value <= highest:
        return None
    return _problem(AnomalyKind.OUT_OF_RANGE, name, metric, f"want 0 to {highest:g}")


def _silent(name: str, recent: Collection[str] | None) -> Sequence[_Problem]:
    """Report a node that the 5 minute query no longer has.

    A 15 minute query still returns a node whose agent stopped 14 minutes ago; KEP-61 trusts it for 5 minutes only.
    """
    if recent is None or name in recent:
        return ()
    text = f"node {name}: no data in the last 5 minutes, only before"
    return (_Problem(None, Anomaly(AnomalyKind.SILENT, name, text)),)


def _frozen(name: str, node: NodeMetrics, unchanged_seconds: float) -> Sequence[_Problem]:
    if unchanged_seconds < FROZEN_SECONDS or not any(metric.value for metric in node.metrics):
        return ()
    text = (
        f"node {name}: every value has been the same for {unchanged_seconds:.0f} s, want {FROZEN_SECONDS:.0f} at most"
    )
    return (_Problem(None, Anomaly(AnomalyKind.FROZEN, name, text)),)


def _contradicts(
    name: str, duration: str, metric: Metric, shorter: Mapping[str, Mapping[str, NodeMetrics]]
) -> _Problem | None:
    """Report a mean that contradicts the mean of a shorter window.

    If 5 of 15 minutes averaged 90 %, the 15 minute mean lies between 30 and 97 %.
    """
    if metric.type not in _BOUNDED or metric.operator != Statistic.AVG:
        return None
    for short, nodes in shorter.items():
        share = DURATIONS_SECONDS[short] / DURATIONS_SECONDS[duration]
        inside = _mean(nodes.get(name), metric.type)
        if inside is None:
            continue
        lowest, highest = share * inside, share * inside + (1.0 - share) * 100.0
        if not lowest - WINDOW_SLACK_PERCENT <= metric.value <= highest + WINDOW_SLACK_PERCENT:
            return _problem(
                AnomalyKind.CONTRADICTION,
                name,
                metric,
                f"want {lowest:.0f} to {highest:.0f}, because {short} is {inside:g}",
            )
    return None


def _mean(node: NodeMetrics | None, kind: str) -> float | None:
    means = (
        [metric.value for metric in node.metrics if metric.type == kind and metric.operator == Statistic.AVG]
        if node
        else []
    )
    return means[-1] if means else None


def _problem(kind: AnomalyKind, name: str, metric: Metric, wanted: str) -> _Problem:
    text = f"node {name}: {metric.type} {metric.operator or '(no operator)'} is {metric.value:g} percent, {wanted}"
    return _Problem(metric, Anomaly(kind, name, text))

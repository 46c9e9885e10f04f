"""Which measurements cannot be, and what is left when they are gone (KEP-61's analyser; G3, G8 and B3 in docs).

| finding       | what was seen                                                              | what is done        |
|---------------|----------------------------------------------------------------------------|---------------------|
| not-a-number  | NaN or infinite                                                            | record dropped      |
| out-of-range  | below 0, CPU or memory above 105 %, a deviation that no such mean can have | record dropped      |
| frozen        | every value of a node has been the very same for ten minutes               | node dropped        |
| silent        | a longer window knows a node of which the last five minutes know nothing   | node dropped        |
| contradiction | a mean that the mean of a shorter window inside it makes impossible        | record dropped      |
| missing       | a node that exists, and no usable CPU or memory record of it               | nothing to drop     |

A dropped record is "no data": the policies then walk down their ladder, they never see a 0 in its place.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Metric, MetricType, NodeMetrics, Operator

HIGHEST_PERCENT: Final = 105.0
"""Of capacity; counters and clocks differ by a little, so that a full node may read as somewhat more."""
FROZEN_SECONDS: Final = 600.0
"""Means of CPU and memory of a node that lives do not repeat to the last bit. Twice the age at which the reports of a
slow agent or scraper, each of which is seen several times, are too old anyway."""
WINDOW_SLACK_PERCENT: Final = 10.0
"""Windows are fetched one after the other and end at different seconds; rates have windows of their own."""

_BOUNDED: Final = frozenset({MetricType.CPU.value, MetricType.MEMORY.value})
_LARGEST_NUMBER: Final = 1e16  # from here on JSON needs exponents, and soon upstream's client cannot read them


class AnomalyKind(enum.StrEnum):
    """Stable code of what is wrong with a measurement."""

    NOT_A_NUMBER = "not-a-number"
    OUT_OF_RANGE = "out-of-range"
    FROZEN = "frozen"
    SILENT = "silent"
    CONTRADICTION = "contradiction"
    MISSING = "missing"


class Anomaly(NamedTuple):
    """One finding, for people: the node and what was seen."""

    finding: AnomalyKind
    node: str
    text: str


class Analysed(NamedTuple):
    """What is usable, and what was found."""

    nodes: Mapping[str, NodeMetrics]
    found: Sequence[Anomaly]


def analyse(
    duration: str,
    nodes: Mapping[str, NodeMetrics],
    *,
    unchanged_seconds: Mapping[str, float],
    shorter: Mapping[str, Mapping[str, NodeMetrics]],
    expected: Collection[str],
    recent: Collection[str] | None = None,
) -> Analysed:
    """Judge what a provider delivered for one window.

    `unchanged_seconds`: how long each node has had these very values. `shorter`: usable nodes of shorter windows, by
    duration. `expected`: names of nodes that exist; empty where that is not known. `recent`: names of nodes of which
    the last five minutes know something; None where that was not asked yet.
    """
    found: list[Anomaly] = []
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
        found += [problem.found for problem in own]
        dropped = {id(problem.metric) for problem in own}
        kept = [metric for metric in node.metrics if id(metric) not in dropped]
        if kept and not any(problem.metric is None for problem in own):
            usable[name] = msgspec.structs.replace(node, metrics=kept)
    found += [
        Anomaly(AnomalyKind.MISSING, name, f"node {name} has no usable record")
        for name in expected
        if name not in usable
    ]
    return Analysed(usable, found)


class _Problem(NamedTuple):
    metric: Metric | None
    """None: the whole node."""
    found: Anomaly


def _impossible(name: str, metric: Metric) -> _Problem | None:
    value = metric.value
    if not math.isfinite(value):
        return _problem(AnomalyKind.NOT_A_NUMBER, name, metric, "wanted a number")
    if metric.type not in _BOUNDED:
        if 0.0 <= value < _LARGEST_NUMBER:
            return None
        return _problem(AnomalyKind.OUT_OF_RANGE, name, metric, "wanted 0 or more")
    highest = HIGHEST_PERCENT / 2.0 if metric.operator == Operator.STD else HIGHEST_PERCENT
    if 0.0 <= value <= highest:
        return None
    return _problem(AnomalyKind.OUT_OF_RANGE, name, metric, f"wanted 0 to {highest:g}")


def _silent(name: str, recent: Collection[str] | None) -> Sequence[_Problem]:
    """Databases answer for as long as anything lies in the window: ten minutes longer than KEP-61 trusts an agent."""
    if recent is None or name in recent:
        return ()
    text = f"node {name}: nothing is known of the last 5 minutes, only of the time before"
    return (_Problem(None, Anomaly(AnomalyKind.SILENT, name, text)),)


def _frozen(name: str, node: NodeMetrics, unchanged_seconds: float) -> Sequence[_Problem]:
    if unchanged_seconds < FROZEN_SECONDS or not any(metric.value for metric in node.metrics):
        return ()
    text = (
        f"node {name}: every value has been the same for {unchanged_seconds:.0f} s, wanted {FROZEN_SECONDS:.0f} at most"
    )
    return (_Problem(None, Anomaly(AnomalyKind.FROZEN, name, text)),)


def _contradicts(
    name: str, duration: str, metric: Metric, shorter: Mapping[str, Mapping[str, NodeMetrics]]
) -> _Problem | None:
    """A mean over the long window holds the short window's share, and at most 100 % for the rest of the time."""
    if metric.type not in _BOUNDED or metric.operator != Operator.AVG:
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
                f"wanted {lowest:.0f} to {highest:.0f}, as {short} is {inside:g}",
            )
    return None


def _mean(node: NodeMetrics | None, kind: str) -> float | None:
    means = (
        [metric.value for metric in node.metrics if metric.type == kind and metric.operator == Operator.AVG]
        if node
        else []
    )
    return means[-1] if means else None


def _problem(finding: AnomalyKind, name: str, metric: Metric, wanted: str) -> _Problem:
    text = f"node {name}: {metric.type} {metric.operator or '(no operator)'} is {metric.value:g} percent, {wanted}"
    return _Problem(metric, Anomaly(finding, name, text))

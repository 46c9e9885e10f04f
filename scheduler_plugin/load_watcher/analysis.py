"""Analyser of KEP-61: find impossible measurements and drop them.

| anomaly       | what was seen                                                              | what is done        |
|---------------|----------------------------------------------------------------------------|---------------------|
| not-a-number  | NaN or infinite                                                            | resource dropped    |
| out-of-range  | below 0, CPU or memory above 105 %, a deviation that no such mean can have | resource dropped    |
| zero          | memory of exactly 0, and CPU of 0 beside it: a running node uses some      | resource dropped    |
| contradiction | a mean that is impossible next to the mean of a shorter window inside it   | resource dropped    |
| incomplete    | a deviation without a mean, or none beside a mean of a provider that has   | resource dropped    |
| frozen        | every value has been the same for twice the age limit, and ten minutes     | node dropped        |
| silent        | the newest sample of a node is older than the age limit                    | node dropped        |
| missing       | a node that exists, for which CPU or memory was not delivered              | nothing to drop     |

"Resource dropped" means every record of CPU or of memory: without its deviation a node would pass for a steady one,
without its mean for an idle one. Of other types only the wrong record is dropped. Dropped resources, except of silent
nodes, are listed in `NodeMetrics.rejected`, so that plugins do not take the node for a new one.

Corroboration joins the results of several providers. The mean and the deviation of CPU and of memory, and each other
record by its name, are the median of the providers' values; with an even number the higher of the two middle ones. With
two providers that is the larger value, so a node that is hot for one of them is not filled. A current value compares
with the mean of another provider, so that all plugins read one mean. Values that differ by more than the tolerance are
reported. A provider without a value for a node is ignored. The result is as old as the oldest of the values. Where a
provider of deviations knows a node and lacks one of its resources, or the analyser dropped it, the mean of another
without one does not replace it: the node would pass for a steady one.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_plugin.load_watcher.records import (
    BOUNDED,
    DURATIONS_SECONDS,
    OLDEST_SECONDS,
    Metric,
    MetricType,
    NodeMetrics,
    Statistic,
    Window,
)

HIGHEST_PERCENT: Final = 105.0
"""Of capacity. Counters and clocks differ slightly, so a full node can measure somewhat more than 100 %."""
_FROZEN_AGES: Final = 2.0
"""Age limits after which equal values are wrong. Means of CPU and memory of a running node do not repeat to the last
bit, but the report of a slow agent or scraper is fetched several times until it is too old."""
_FROZEN_SECONDS: Final = 600.0
"""Time after which they are wrong with the shortest age limit: a node without work may repeat rounded values."""
WINDOW_SLACK_PERCENT: Final = 10.0
"""Windows are fetched one after the other and end at different seconds; rates have their own windows."""

_MEANS: Final = frozenset({Statistic.AVG, Statistic.LATEST, ""})
_LARGEST_NUMBER: Final = 1e16  # larger numbers need exponents in JSON, which upstream's client cannot read


class AnomalyKind(enum.StrEnum):
    """Kind of a wrong measurement, a stable code."""

    NOT_A_NUMBER = "not-a-number"
    OUT_OF_RANGE = "out-of-range"
    ZERO = "zero"
    INCOMPLETE = "incomplete"
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
    end: float = 0.0,
    oldest_seconds: float = OLDEST_SECONDS,
    has_deviation: bool = False,
) -> Analysed:
    """Drop the impossible measurements of one window of one provider and return the rest with the anomalies.

    `unchanged_seconds`: how long each node has had these values. `shorter`: usable nodes of the last fetches of shorter
    windows, by duration. `expected`: names of the nodes that exist; empty if unknown. `end`: end of the requested
    window. `oldest_seconds`: age limit of samples then. `has_deviation`: whether the provider delivers a deviation
    beside every mean.
    """
    anomalies: list[Anomaly] = []
    usable = {}
    for name, node in nodes.items():
        age_seconds = end - node.window.end if node.window else 0.0
        problems = _whole_node(
            name, node, age_seconds, unchanged_seconds.get(name, 0.0), oldest_seconds
        ) or _wrong_resources(name, duration, node, shorter, has_deviation=has_deviation)
        anomalies += [problem.anomaly for problem in problems]
        if not any(problem.anomaly.kind is AnomalyKind.SILENT for problem in problems):
            usable[name] = _without(node, problems) if problems else node
    anomalies += _missing(usable, expected)
    return Analysed({name: node for name, node in usable.items() if node.metrics or node.rejected}, anomalies)


class _Problem(NamedTuple):
    metric: Metric | None
    """None: the whole node."""
    anomaly: Anomaly


def _impossible(name: str, metric: Metric) -> _Problem | None:
    value = metric.value
    if not math.isfinite(value):
        return _problem(AnomalyKind.NOT_A_NUMBER, name, metric, "want a number")
    if metric.type not in BOUNDED:
        if 0.0 <= value < _LARGEST_NUMBER:
            return None
        return _problem(AnomalyKind.OUT_OF_RANGE, name, metric, "want 0 or more")
    highest = HIGHEST_PERCENT / 2.0 if metric.operator == Statistic.STD else HIGHEST_PERCENT
    if 0.0 <= value <= highest:
        return None
    return _problem(AnomalyKind.OUT_OF_RANGE, name, metric, f"want 0 to {highest:g}")


def _wrong_resources(
    name: str,
    duration: str,
    node: NodeMetrics,
    shorter: Mapping[str, Mapping[str, NodeMetrics]],
    *,
    has_deviation: bool,
) -> Sequence[_Problem]:
    zeros = {metric.type for metric in node.metrics if metric.operator in _MEANS and metric.value == 0.0}
    absent = zeros.intersection(BOUNDED) if MetricType.MEMORY in zeros else ()
    wrong = [
        problem
        for metric in node.metrics
        if (
            problem := _impossible(name, metric)
            or (_problem(AnomalyKind.ZERO, name, metric, "want more than 0") if metric.type in absent else None)
            or _contradicts(name, duration, node, metric, shorter)
        )
    ]
    types = {problem.metric.type for problem in wrong if problem.metric is not None}
    incomplete = _incomplete(name, node, has_deviation=has_deviation)
    return [*wrong, *(problem for problem in incomplete if problem.metric and problem.metric.type not in types)]


def _incomplete(name: str, node: NodeMetrics, *, has_deviation: bool) -> Sequence[_Problem]:
    """Report a deviation without a mean and, where deviations are delivered, a mean without one."""
    problems = []
    for kind in BOUNDED:
        by_operator = {metric.operator: metric for metric in node.metrics if metric.type == kind}
        mean, deviation = by_operator.get(Statistic.AVG), by_operator.get(Statistic.STD)
        if deviation is not None and not _MEANS & by_operator.keys():
            problems.append(_problem(AnomalyKind.INCOMPLETE, name, deviation, "want its mean beside it"))
        elif has_deviation and mean is not None and deviation is None:
            problems.append(_problem(AnomalyKind.INCOMPLETE, name, mean, "want its deviation beside it"))
    return problems


def _without(node: NodeMetrics, problems: Sequence[_Problem]) -> NodeMetrics:
    """Drop the wrong records and, of CPU and memory, the other records of the same resource."""
    if any(problem.metric is None for problem in problems):
        return msgspec.structs.replace(node, metrics=[], rejected=list(BOUNDED))
    dropped = {id(problem.metric) for problem in problems}
    types = {problem.metric.type for problem in problems if problem.metric is not None}
    rejected = [kind.value for kind in BOUNDED if kind in types or kind in (node.rejected or ())]
    metrics = [metric for metric in node.metrics if id(metric) not in dropped and metric.type not in rejected]
    return msgspec.structs.replace(node, metrics=metrics, rejected=rejected or msgspec.UNSET)


def _missing(usable: Mapping[str, NodeMetrics], expected: Collection[str]) -> Sequence[Anomaly]:
    """Report each node without records, and each of which CPU or memory was not delivered at all."""
    anomalies = []
    for name in expected:
        node = usable.get(name)
        if node is None or not node.metrics:
            anomalies.append(Anomaly(AnomalyKind.MISSING, name, f"node {name} has no usable record"))
            continue
        delivered = {metric.type for metric in node.metrics}.union(node.rejected or ())
        anomalies += [
            Anomaly(AnomalyKind.MISSING, name, f"node {name} has no record of {kind}")
            for kind in BOUNDED
            if kind not in delivered
        ]
    return anomalies


def _whole_node(
    name: str, node: NodeMetrics, age_seconds: float, unchanged_seconds: float, oldest_seconds: float
) -> Sequence[_Problem]:
    """Report a node whose newest sample is too old, or whose values do not change.

    A 15 minute query still returns a node whose agent stopped 14 minutes ago.
    """
    frozen_seconds = max(_FROZEN_AGES * oldest_seconds, _FROZEN_SECONDS)
    if age_seconds > oldest_seconds:
        kind, text = AnomalyKind.SILENT, f"the newest sample is {age_seconds:.0f} s old, want {oldest_seconds:.0f}"
    elif unchanged_seconds >= frozen_seconds and any(metric.value for metric in node.metrics):
        kind = AnomalyKind.FROZEN
        text = f"every value has been the same for {unchanged_seconds:.0f} s, want {frozen_seconds:.0f}"
    else:
        return ()
    return (_Problem(None, Anomaly(kind, name, f"node {name}: {text} at most")),)


def _contradicts(
    name: str, duration: str, node: NodeMetrics, metric: Metric, shorter: Mapping[str, Mapping[str, NodeMetrics]]
) -> _Problem | None:
    """Report a mean that contradicts the mean of a shorter window inside the window of the mean.

    If 5 of 15 minutes averaged 90 %, the 15 minute mean lies between 30 and 97 %.
    """
    if metric.type not in BOUNDED or metric.operator != Statistic.AVG:
        return None
    for short, nodes in shorter.items():
        share = DURATIONS_SECONDS[short] / DURATIONS_SECONDS[duration]
        inside = _mean(nodes.get(name), metric.type)
        if inside is None or not _contains(node.window, nodes[name].window):
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


def _contains(long: Window | msgspec.UnsetType, short: Window | msgspec.UnsetType) -> bool:
    """Return whether one window is inside the other; the windows of one fetch are."""
    return not long or not short or (long.start <= short.start and short.end <= long.end)


def _mean(node: NodeMetrics | None, kind: str) -> float | None:
    metrics = reversed(node.metrics if node else ())
    return next((one.value for one in metrics if one.type == kind and one.operator == Statistic.AVG), None)


def _problem(kind: AnomalyKind, name: str, metric: Metric, accepted: str) -> _Problem:
    text = f"node {name}: {metric.type} {metric.operator or '(no operator)'} is {metric.value:g} percent, {accepted}"
    return _Problem(metric, Anomaly(kind, name, text))


TOLERANCE_PERCENT: Final = 10.0
"""Accepted difference: percentage points of CPU and memory, and percent of the larger value of other types. Providers
sample at different times and smooth differently."""
_MEAN: Final = "mean"
_DEVIATION: Final = "deviation"


class Corroborated(NamedTuple):
    """Joined nodes, and one line for each value on which providers disagree."""

    nodes: Mapping[str, NodeMetrics]
    disagreements: Sequence[str]


def corroborate(results: Mapping[str, Mapping[str, NodeMetrics]]) -> Corroborated:
    """Join results by provider name, in order of trust: tags, metadata and record names come from the first."""
    if len(results) == 1:
        (only,) = results.values()
        return Corroborated(only, ())
    by_provider = {name: _deviating(node.metrics for node in result.values()) for name, result in results.items()}
    disagreements: list[str] = []
    nodes: dict[str, NodeMetrics] = {}
    for name in {name: None for result in results.values() for name in result}:
        of_node = {provider: result[name] for provider, result in results.items() if name in result}
        metrics = _joined(name, {provider: node.metrics for provider, node in of_node.items()}, disagreements)
        delivered, deviating = {metric.type for metric in metrics}, _deviating([metrics])
        without_deviation = {
            kind
            for kind in BOUNDED
            for provider, node in of_node.items()
            if kind in by_provider[provider] and all(metric.type != kind for metric in node.metrics)
        }.difference(deviating)
        metrics = [metric for metric in metrics if metric.type not in without_deviation]
        rejected = {
            kind: None
            for node in of_node.values()
            for kind in node.rejected or ()
            if kind in without_deviation or kind not in delivered
        }
        first = next(iter(of_node.values()))
        nodes[name] = msgspec.structs.replace(
            first, metrics=metrics, rejected=list(rejected) or msgspec.UNSET, window=_oldest(of_node.values())
        )
    return Corroborated(nodes, disagreements)


def _deviating(of_nodes: Iterable[Sequence[Metric]]) -> set[str]:
    return {metric.type for metrics in of_nodes for metric in metrics if metric.operator == Statistic.STD}


def _oldest(nodes: Collection[NodeMetrics]) -> Window | msgspec.UnsetType:
    """Return the oldest start and end: a value that is part of the result may be that old."""
    windows = [node.window for node in nodes if node.window and node.metrics]
    windows = windows or [node.window for node in nodes if node.window]
    if not windows:
        return msgspec.UNSET
    return Window(windows[0].duration, min(window.start for window in windows), min(window.end for window in windows))


class _Key(NamedTuple):
    """Identity of a value in the answers of several providers."""

    type: str
    statistic: str
    """Mean or deviation of CPU and memory, where a current value (Latest) counts as a mean; the operator of others."""
    name: str = ""
    """Of other types the name of the record, because a node has many of each."""
    place: int = 0
    """Number of records of the same name before this one, such as one for each disk."""


def _keyed(metrics: Sequence[Metric]) -> dict[_Key, Metric]:
    by_key: dict[_Key, Metric] = {}
    for metric in metrics:
        if metric.type in BOUNDED:
            key = _Key(metric.type, _DEVIATION if metric.operator == Statistic.STD else _MEAN)
            if key not in by_key or metric.operator == Statistic.AVG or by_key[key].operator != Statistic.AVG:
                by_key[key] = metric
            continue
        key = _Key(metric.type, metric.operator, metric.name)
        while key in by_key:
            key = key._replace(place=key.place + 1)
        by_key[key] = metric
    return by_key


def _joined(node: str, by_provider: Mapping[str, Sequence[Metric]], disagreements: list[str]) -> list[Metric]:
    same: dict[_Key, dict[str, Metric]] = {}
    for provider, metrics in by_provider.items():
        for key, metric in _keyed(metrics).items():
            same.setdefault(key, {})[provider] = metric
    joined = []
    for key, by_name in same.items():
        values = [metric.value for metric in by_name.values()]
        is_percent = key.type in BOUNDED
        accepted = TOLERANCE_PERCENT if is_percent else max(map(abs, values)) * TOLERANCE_PERCENT / 100.0
        if max(values) - min(values) > accepted:
            values_text = ", ".join(
                f"{provider} {metric.value:.1f} ({metric.operator or 'no operator'})"
                for provider, metric in by_name.items()
            )
            disagreements.append(f"node {node}: {key.type} {key.name or key.statistic}: {values_text}")
        of_window = [metric for metric in by_name.values() if metric.operator == Statistic.AVG]
        first = next(iter(of_window or by_name.values()))
        joined.append(msgspec.structs.replace(first, value=statistics.median_high(values)))
    return joined

"""Plain reading of KEP-61 and KEP-357 from the answers of two sources to the scores, one node after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler_plugin.plugins.trimaran import beta_distribution

KINDS = ("CPU", "Memory")
SECONDS = {"15m": 900, "10m": 600, "5m": 300}
OLDEST_SECONDS = 300
KEPT = 5
"""Answers of which it is remembered that their values were impossible."""
CAPACITY = {"CPU": 4000.0, "Memory": 8.0 * 2**30}
TARGET = 40.0
SMOOTHING = 5
LIMIT_WEIGHT = 0.5


@dataclass(frozen=True)
class Sample:
    """Answer about one resource of one node in percent of capacity; None: not in the answer."""

    mean: float | None
    deviation: float | None


@dataclass(frozen=True)
class Series:
    """Answer of a source of mean and deviation about one node: window -> resource -> sample."""

    of: Mapping[str, Mapping[str, Sample]]


@dataclass(frozen=True)
class Report:
    """Report of an agent, which may lack windows and deviations."""

    sampled_at: int
    of: Mapping[str, Mapping[str, Sample]]
    now: Mapping[str, float]


@dataclass(frozen=True)
class Round:
    """What both sources answer at one time, by node. `series` None: the source fails."""

    at: int
    series: Mapping[str, Series] | None
    reports: Mapping[str, Report]


@dataclass(frozen=True)
class PlacedPod:
    """Pod with requests and limits by resource; a limit of 0 is none."""

    placed_at: int
    request: Mapping[str, float]
    limit: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))

    @property
    def is_best_effort(self) -> bool:
        """Return whether nothing is declared."""
        return not any(self.request.values()) and not any(self.limit.values())


@dataclass(frozen=True)
class Measured:
    """Usable measurement of one resource."""

    mean: float
    deviation: float
    start: int
    end: int


@dataclass(frozen=True)
class Seen:
    """What one snapshot has of one node: measurements, and the resources whose values were impossible."""

    measured: Mapping[str, Measured]
    dropped: frozenset[str]
    end: int


def seen(round_: Round, node: str, duration: str) -> Seen | None:
    """Join what both sources say about a node over a window; None if neither says anything."""
    means: dict[str, list[float]] = {kind: [] for kind in KINDS}
    deviations: dict[str, list[float]] = {kind: [] for kind in KINDS}
    spans: list[tuple[int, int]] = []
    dropped, lost_deviations = set(), set()
    if round_.series is not None and node in round_.series:
        spans.append((round_.at - SECONDS[duration], round_.at))  # its network series is always there
        for kind, sample in round_.series[node].of[duration].items():
            if usable(sample):
                means[kind].append(number(sample.mean))
                deviations[kind].append(number(sample.deviation))
                continue
            if sample != Sample(None, None):
                dropped.add(kind)
            if any(usable(other.of[duration][kind]) for other in round_.series.values()):
                lost_deviations.add(kind)
    report = round_.reports.get(node)
    if report is not None and round_.at - report.sampled_at <= OLDEST_SECONDS:
        windows = report.of.get(duration)
        samples = windows or {kind: Sample(mean, None) for kind, mean in report.now.items()}
        seconds = SECONDS[duration] if windows else 0
        has_any = False
        lost_deviations |= {kind for kind in KINDS if kind not in samples and agents_deviate(round_, duration, kind)}
        for kind, sample in samples.items():
            if not possible(sample.mean, 105.0) or not (sample.deviation is None or possible(sample.deviation, 52.5)):
                dropped.add(kind)
                if agents_deviate(round_, duration, kind):
                    lost_deviations.add(kind)
                continue
            has_any = True
            means[kind].append(number(sample.mean))
            deviations[kind] += [] if sample.deviation is None else [sample.deviation]
        if has_any or not spans:
            spans.append((report.sampled_at - seconds, report.sampled_at))
    elif not spans:
        return None
    measured = {
        # Of two sources the higher value counts. Without the deviation of a source that has those of other nodes, the
        # node would pass for a steady one.
        kind: Measured(
            max(means[kind]), max(deviations[kind], default=0.0), min(s for s, _e in spans), min(e for _s, e in spans)
        )
        for kind in KINDS
        if means[kind] and (deviations[kind] or kind not in lost_deviations)
    }
    return Seen(measured, frozenset(dropped), min(end for _start, end in spans))


def usable(sample: Sample) -> bool:
    """Return whether mean and deviation can be true."""
    return possible(sample.mean, 105.0) and possible(sample.deviation, 52.5)


def agents_deviate(round_: Round, duration: str, kind: str) -> bool:
    """Return whether any agent reports a deviation."""
    fresh = [each for each in round_.reports.values() if round_.at - each.sampled_at <= OLDEST_SECONDS]
    samples = [each.of[duration][kind] for each in fresh if kind in each.of.get(duration, {})]
    return any(usable(sample) for sample in samples)


def possible(value: float | None, highest: float) -> bool:
    """Return whether a percentage can be true."""
    return value is not None and math.isfinite(value) and 0.0 <= value <= highest


def number(value: float | None) -> float:
    """Return a value that is known to be there."""
    assert value is not None
    return value


@dataclass(frozen=True)
class NodeState:
    """What is known about a node, by resource: a measurement, and whether values were dropped."""

    measured: Mapping[str, Measured]
    dropped: frozenset[str]


def known(rounds: Sequence[Round], node: str, now: int) -> NodeState:
    """Choose for each resource the newest measurement that is not older than 5 minutes, of that the longest window."""
    measured: dict[str, Measured] = {}
    dropped: set[str] = set()
    for age, round_ in enumerate(reversed(rounds)):
        for duration in SECONDS:
            answer = seen(round_, node, duration)
            if answer is None:
                continue
            for kind in KINDS:
                found = answer.measured.get(kind)
                if kind in measured:
                    continue
                if found is not None and now - found.end <= OLDEST_SECONDS:
                    measured[kind] = found
                elif kind in answer.dropped and age < KEPT and now - answer.end <= OLDEST_SECONDS:
                    dropped.add(kind)
    return NodeState(measured, frozenset(dropped))


def levels(states: Mapping[str, NodeState], pods: Mapping[str, Sequence[PlacedPod]], now: int) -> dict[str, list[str]]:
    """Return what each node is scored by, for CPU and memory."""
    found: dict[str, list[str]] = {}
    for node, state in states.items():
        is_new = all(now - pod.placed_at <= OLDEST_SECONDS for pod in pods[node])
        found[node] = []
        for kind in KINDS:
            if kind in state.measured:
                found[node].append("MEASURED")
            elif not any(kind in other.measured for other in states.values()):
                found[node].append("BY_REQUESTS")
            elif is_new and kind not in state.dropped:
                found[node].append("PREDICTED")
            else:
                found[node].append("UNKNOWN")
    return found


def requested(pods: Iterable[PlacedPod], kind: str) -> float:
    """Return the sum of the requests."""
    return sum(pod.request[kind] for pod in pods)


def missing_share(pod: PlacedPod, of: Measured) -> float:
    """Return the share of a pod's usage that the mean does not contain."""
    ran = max(0, of.end - pod.placed_at)
    return max(0.0, 1.0 - ran / max(of.end - of.start, 60))


def best_fit(pods: Sequence[PlacedPod]) -> float:
    """Score the node that is fullest by requests best."""
    fullest = max(requested(pods, kind) / CAPACITY[kind] for kind in KINDS)
    return math.floor(fullest * 100.0) if fullest <= 1.0 else 0.0


def target_load_packing(
    state: NodeState, level: Sequence[str], pods: Sequence[PlacedPod], incoming: PlacedPod
) -> float:
    """Score a node as KEP-61 does for TargetLoadPacking."""
    if level[0] == "BY_REQUESTS":
        return best_fit([*pods, incoming])
    if level[0] == "UNKNOWN":
        return 0.0
    used = incoming.request["CPU"]
    if level[0] == "PREDICTED":
        used += sum(pod.request["CPU"] or 1.0 for pod in pods)
    else:
        of = state.measured["CPU"]
        used += of.mean / 100.0 * CAPACITY["CPU"]
        used += sum((pod.request["CPU"] or 1.0) * missing_share(pod, of) for pod in pods)
    percent = 100.0 * used / CAPACITY["CPU"]
    if percent <= TARGET:
        return (100.0 - TARGET) * percent / TARGET + TARGET
    return TARGET * (100.0 - percent) / (100.0 - TARGET) if percent <= 100.0 else 0.0


def load_variation(state: NodeState, level: Sequence[str], pods: Sequence[PlacedPod], incoming: PlacedPod) -> float:
    """Score a node as KEP-61 does for LoadVariationRiskBalancing, with a margin of 1."""
    if "UNKNOWN" in level:
        return 0.0
    if set(level) == {"BY_REQUESTS"}:
        return best_fit([*pods, incoming])
    scores = []
    for kind in KINDS:
        of = state.measured.get(kind)
        request = incoming.request[kind]
        if of is None:
            risk = (request + requested(pods, kind)) / CAPACITY[kind]
        else:
            request += sum(pod.request[kind] * missing_share(pod, of) for pod in pods)
            risk = min(of.mean, 100.0) / 100.0 + request / CAPACITY[kind] + of.deviation / 100.0
        scores.append((1.0 - min(1.0, risk)) * 100.0)
    return min(scores)


def low_risk(state: NodeState, level: Sequence[str], pods: Sequence[PlacedPod], incoming: PlacedPod) -> float:
    """Score a node as KEP-357 does."""
    if "UNKNOWN" in level:
        return 0.0
    risks = []
    for kind in KINDS:
        capacity = CAPACITY[kind]
        request = min(requested([*pods, incoming], kind), capacity)
        limit = sum(pod.limit[kind] for pod in [*pods, incoming])
        if any(pod.is_best_effort for pod in [*pods, incoming]):
            limit = max(limit, capacity)
        of_limits = (limit - capacity) / (limit - request) if limit > capacity else 0.0
        of_load = of_limits
        if kind in state.measured:
            of_load = overuse(state.measured[kind], min(requested(pods, kind), capacity) / capacity)
        risks.append(LIMIT_WEIGHT * of_limits + (1.0 - LIMIT_WEIGHT) * of_load)
    return (1.0 - max(risks)) * 100.0


def overuse(of: Measured, threshold: float) -> float:
    """Return the tail of the beta distribution beyond the requests; its function has tests of its own."""
    mu = min(of.mean / 100.0, 1.0)
    sigma = min(of.deviation / 100.0, 1.0) * math.sqrt(SMOOTHING)
    sigma = min(sigma, math.sqrt(0.99 * mu * (1.0 - mu)))
    below, _fit = beta_distribution.probability_below(np.array([mu]), np.array([sigma]), np.array([threshold]))
    return 1.0 - float(below[0])


POLICIES = {
    "TargetLoadPacking": target_load_packing,
    "LoadVariationRiskBalancing": load_variation,
    "LowRiskOverCommitment": low_risk,
}

"""Reference model of a node's prediction, computed from raw samples by plain sums (docs/reference/formulas.md).

Every half minute each series gives one value: the p90 of its samples of the last 30 s. Its weight in mean and
deviation halves with every half-life of age. There are no buckets, no running moments and no arrays here.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

WINDOW_SECONDS = 30.0
RESOURCES = ("cpu", "memory")

Key = tuple[str, str]
"""Kind and identity of a series."""


class Moments(NamedTuple):
    """Decayed mean and standard deviation."""

    mean: float
    stdev: float

    def sig(self, n: float) -> float:
        """Return mean + N * stdev."""
        return self.mean + n * self.stdev


def p90(values: list[float]) -> float:
    """Return the value at index max(trunc(n * 0.9) - 1, 0) of the ascending order."""
    return sorted(values)[max(int(len(values) * 0.9) - 1, 0)]


def moments(values: Iterable[tuple[float, float]], half_life_seconds: float) -> Moments:
    """Return mean and deviation of (time, value) pairs."""
    pairs = list(values)
    newest = max(at for at, _ in pairs)
    weights = [2.0 ** ((at - newest) / half_life_seconds) for at, _ in pairs]
    total = math.fsum(weights)
    mean = math.fsum(weight * value for weight, (_, value) in zip(weights, pairs, strict=True)) / total
    squares = math.fsum(weight * (value - mean) ** 2 for weight, (_, value) in zip(weights, pairs, strict=True))
    return Moments(mean, math.sqrt(squares / total))


def predicted_at(page: Mapping[str, Any], status: Mapping[str, Any]) -> float | None:
    """Return the time of a report's prediction; the report has whole seconds, and a training may be in the same one."""
    if "prediction" not in status:
        return None
    reported = dt.datetime.fromisoformat(status["prediction"]["time"]).timestamp()
    found = [at for at in page["predictedAtSeconds"] if math.floor(at) == reported]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class RawSamples:
    """Samples of the agent's page /debug/samples, up to a time."""

    at_seconds: list[float]
    trained_at_seconds: list[float]
    series: Mapping[Key, Mapping[str, list[float | None]]]

    @classmethod
    def of_page(cls, page: Mapping[str, Any], until_seconds: float) -> RawSamples:
        """Read the page, leaving out the trainings after a moment."""
        return cls(
            page["atSeconds"],
            [at for at in page["trainedAtSeconds"] if at <= until_seconds],
            {(each["kind"], each["identity"]): {name: each[name] for name in RESOURCES} for each in page["series"]},
        )

    def is_whole(self) -> bool:
        """Return whether the samples cover every training: none used a value before the first sample."""
        return bool(self.trained_at_seconds) and self.at_seconds[0] > self.trained_at_seconds[0] - 2 * WINDOW_SECONDS

    def learnt(self, key: Key) -> dict[str, list[tuple[float, float]]]:
        """Return the training values of a series: resource -> (time of training, value)."""
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in RESOURCES}
        columns = self.series[key]
        for trained in self.trained_at_seconds:
            recent = [i for i, at in enumerate(self.at_seconds) if trained - WINDOW_SECONDS < at <= trained]
            windows = {name: [v for i in recent if (v := columns[name][i]) is not None] for name in RESOURCES}
            if all(windows.values()):
                for name, values in windows.items():
                    found[name].append((trained, p90(values)))
        return found

    def moments(self, key: Key, resource: str, half_life_seconds: float) -> Moments:
        """Return mean and deviation of a series."""
        return moments(self.learnt(key)[resource], half_life_seconds)


@dataclass(frozen=True)
class Peaks:
    """Predictor n-sigma-v2 with no margin, for one resource."""

    class_peak: float
    pod_sum_peak: float
    system_peak: float
    cold_requests: float
    capacity: float

    @property
    def peak(self) -> float:
        """Return Peak[Prod]."""
        peak = max(self.class_peak, self.pod_sum_peak + self.system_peak) + self.cold_requests
        return min(peak, self.capacity)


def prod_peaks(
    raw: RawSamples,
    resource: str,
    *,
    warm_limits: Mapping[str, float],
    cold_requests: float,
    capacity: float,
    n: float,
    half_life_seconds: float,
) -> Peaks:
    """Return the terms of max( sig(prod + S), sum over warm Prod pods min(sig(p), limit(p)) + sig(S) ) + C.

    `warm_limits` has the limit of each warm Prod pod by its UID, infinite without one. A pod that uses more than its
    limit on average has none.
    """

    def sig(key: Key, limit: float = math.inf) -> float:
        found = raw.moments(key, resource, half_life_seconds)
        return found.sig(n) if found.mean > limit else min(found.sig(n), limit)

    return Peaks(
        class_peak=sig(("prod-and-unreserved-system", "")),
        pod_sum_peak=math.fsum(sig(("pod", uid), limit) for uid, limit in warm_limits.items()),
        system_peak=sig(("unreserved-system", "")),
        cold_requests=cold_requests,
        capacity=capacity,
    )


def node_peak(
    raw: RawSamples, resource: str, *, uids: Iterable[str], n: float, half_life_seconds: float, capacity: float
) -> float:
    """Return max( sig(node), sum over all pods sig(p) + sig(system) ), at most the capacity."""

    def sig(key: Key) -> float:
        return raw.moments(key, resource, half_life_seconds).sig(n)

    peak = max(sig(("node", "")), math.fsum(sig(("pod", uid)) for uid in uids) + sig(("system", "")))
    return min(peak, capacity)

"""Reference model of the live evaluation, computed from raw samples by plain sums (docs/concepts/prediction.md).

A forecast is for the Prod pods of its time. Every half minute the usage of those that still run, and of S, gives one
value: the p90 of the last 30 s. The highest value of the horizon is compared with the forecast.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from e2e.support.prediction_model import RESOURCES, WINDOW_SECONDS, Key, p90

HALF_LIFE_SECONDS = 7 * 86_400.0
_HOURS_OF_A_WEEK = 168
_UNRESERVED_SYSTEM = ("unreserved-system", "")
_NOISE_SECONDS = 0.5
_ROUNDING = 1e-6

Samples = dict[Key, Mapping[str, float | None]]
Forecast = Mapping[str, Any]


@dataclass
class Recording:
    """Samples, trainings and forecasts of the pages /debug/samples of one agent and its successors."""

    samples: dict[float, Samples] = field(default_factory=dict)
    trained_at_seconds: set[float] = field(default_factory=set)
    closed: dict[float, Forecast] = field(default_factory=dict)
    """Time of a forecast -> the forecast, closed."""
    pods: dict[float, Sequence[str]] = field(default_factory=dict)
    """Time of a forecast -> its pods."""

    def add(self, page: Mapping[str, Any]) -> None:
        """Add a page. Two pages should overlap, except where an agent has ended."""
        series = {(each["kind"], each["identity"]): each for each in page["series"]}
        wanted = {key: each for key, each in series.items() if key[0] == "pod" or key == _UNRESERVED_SYSTEM}
        for column, at in enumerate(page["atSeconds"]):
            if at not in self.samples:
                self.samples[at] = {
                    key: {name: each[name][column] for name in RESOURCES} for key, each in wanted.items()
                }
        self.trained_at_seconds.update(page["trainedAtSeconds"])
        forecasts = page["forecasts"]
        self.closed.update({each["madeAtSeconds"]: each for each in forecasts["closed"]})
        if forecasts["open"] is not None:
            self.pods[forecasts["open"]["madeAtSeconds"]] = forecasts["open"]["pods"]

    def usage(self, uids: Sequence[str], trained_at: float, resource: str) -> float | None:
        """Return the usage of pods and S of one training, None where S is not known."""
        sums = []
        for at, values in self.samples.items():
            system = values.get(_UNRESERVED_SYSTEM, {}).get(resource)
            if trained_at - WINDOW_SECONDS < at <= trained_at and system is not None:
                pods = (values.get(("pod", uid), {}).get(resource) for uid in uids)
                sums.append(system + math.fsum(used for used in pods if used is not None))
        return p90(sums) if sums else None

    def highest(self, forecast: Forecast, resource: str) -> float:
        """Return the highest usage within the horizon of a closed forecast."""
        made = forecast["madeAtSeconds"]
        end = made + forecast["elapsedSeconds"] + _NOISE_SECONDS
        trainings = [at for at in self.trained_at_seconds if made + _NOISE_SECONDS < at <= end]
        values = [self.usage(self.pods[made], at, resource) for at in trainings]
        return max(value for value in values if value is not None)

    def scores(self, predictor: str, resource: str) -> dict[str, float]:
        """Return the scores of a predictor over all closed forecasts, as the NodeMetric has them."""
        ends = {made: made + each["elapsedSeconds"] for made, each in self.closed.items()}
        newest = max(ends.values())
        weights = {made: 2.0 ** ((end - newest) / HALF_LIFE_SECONDS) for made, end in ends.items()}
        severities = {}
        for made, forecast in self.closed.items():
            peak, used = forecast["peaks"][predictor][resource], self.highest(forecast, resource)
            used = min(used, forecast["capacity"].get(resource, math.inf))
            if used > peak * (1 + _ROUNDING):
                severities[made] = (used - peak) / used
        total, violations = sum(weights.values()), sum(weights[made] for made in severities)
        charged = {
            made: min(each["peaks"][predictor][resource], each["requested"][resource])
            for made, each in self.closed.items()
        }
        peaks = sum(weights[made] * charged[made] for made in self.closed)
        requests = sum(weights[made] * each["requested"][resource] for made, each in self.closed.items())
        found = {
            "forecasts": total,
            "violationPercent": 100 * violations / total,
            "savingsPercent": 100 * (1 - peaks / requests),
        }
        if severities:
            severity = sum(weights[made] * each for made, each in severities.items()) / violations
            found["severityPercent"] = 100 * severity
            by_hour: Counter[int] = Counter()
            for made in severities:
                at = datetime.fromtimestamp(made, UTC)
                by_hour[24 * at.weekday() + at.hour] += weights[made]
            hour = min(by_hour, key=lambda hour: (-by_hour[hour], hour))
            found["worstHour"] = hour
            found["worstHourViolationPercent"] = min(100.0, 100 * by_hour[hour] / max(1.0, total / _HOURS_OF_A_WEEK))
        return found

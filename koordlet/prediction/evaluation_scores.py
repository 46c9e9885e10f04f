"""Forecasts of the live evaluation, and their scores: decayed sums over closed forecasts, and the shares that follow.

    violation = usage > peak      severity = (usage - peak) / usage of a violation      savings = 1 - peaks / requests

`usage` is the highest usage during the horizon of a forecast, `peak` the forecast.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from koordlet.samples import Resource

HALF_LIFE_SECONDS: Final = 7 * 86_400.0
"""Time after which a closed forecast counts half."""
_ROUNDING: Final = 1e-6
"""Relative error of samples and their sums: they are cached with 24 bits."""


class Scores(msgspec.Struct):
    """Decayed sums over closed forecasts, in cores or bytes where they are amounts."""

    forecasts: float = 0.0
    violations: float = 0.0
    severities: float = 0.0
    peaks: float = 0.0
    requests: float = 0.0

    def add(self, peak: float, requested: float, usage: float) -> bool:
        """Add a closed forecast; return whether it is a violation."""
        is_violation = usage > peak * (1 + _ROUNDING)
        self.forecasts += 1
        self.peaks += peak
        self.requests += requested
        if is_violation:
            self.violations += 1
            self.severities += (usage - peak) / usage
        return is_violation

    def decay(self, seconds: float) -> None:
        """Make every forecast older."""
        factor = 2.0 ** -(seconds / HALF_LIFE_SECONDS)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) * factor)

    @property
    def violation_ratio(self) -> float:
        """Share of the forecasts that usage exceeded."""
        return self.violations / self.forecasts

    @property
    def severity_ratio(self) -> float | None:
        """Mean severity of the violations, None without one."""
        return self.severities / self.violations if self.violations > 0 else None

    @property
    def savings_ratio(self) -> float:
        """Share of the requests above the forecast peaks, negative where these are higher."""
        return 1 - self.peaks / self.requests


class Forecast(msgspec.Struct, rename="camel"):
    """Peaks of several predictors for the same pods and the same horizon, and the usage since then.

    No component acts on a forecast. Amounts are cores and bytes.
    """

    made_at_seconds: float
    """Unix time, for people: nothing is calculated from it."""
    horizon_seconds: float
    parameters: dict[str, Any]
    """Parameters of all predictors."""
    pods: list[str]
    """UIDs of the Prod pods at that time."""
    requested: dict[Resource, float]
    """Requests of these pods; a resource that none of them requests is left out, and is not evaluated."""
    capacity: dict[Resource, float]
    """Capacity of the node, which limits every peak; empty where it is not known."""
    peaks: dict[str, dict[Resource, float]]
    """Predictor -> forecast peak."""
    highest: dict[Resource, float] = {}
    """Highest usage so far of those of the pods that still run, and of S; empty before the first observation."""
    elapsed_seconds: float = 0.0
    unobserved_seconds: float = 0.0
    """Time since the last observation."""


class Record(msgspec.Struct):
    """Scores of one predictor, all with the same horizon and parameters."""

    horizon_seconds: float
    parameters: dict[str, Any]
    scores: dict[Resource, Scores]

    def is_comparable(self, forecast: Forecast) -> bool:
        """Return whether a forecast has this horizon and these parameters. One that is new since then is ignored."""
        return self.horizon_seconds == forecast.horizon_seconds and all(
            self.parameters.get(name, value) == value for name, value in forecast.parameters.items()
        )

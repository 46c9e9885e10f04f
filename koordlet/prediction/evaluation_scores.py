"""Scores of one predictor for one resource: decayed sums over its closed forecasts, and the shares that follow.

    violation = usage > peak      severity = (usage - peak) / usage of a violation      savings = 1 - peaks / requests

`usage` is the highest usage during the horizon of a forecast, `peak` the forecast.
"""

from __future__ import annotations

from typing import Final

import msgspec

HALF_LIFE_SECONDS: Final = 7 * 86_400.0
"""Time after which a closed forecast counts half."""
_ROUNDING: Final = 1e-6
"""Relative error of samples and their sums: they are cached with 24 bits."""


class Scores(msgspec.Struct, rename="camel"):
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

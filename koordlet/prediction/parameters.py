"""What a prediction is made with: the predictor's name and its numbers (design 3.2, `nodePredictPolicy`).

The caller builds it from the NodeMetric's `spec.predictPolicy`; which keys a policy leaves out is its business, the
defaults are here.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

_DEFAULT_MARGIN_PERCENT: Final = {"percentile": 10.0}


class InvalidParameters(ValueError):
    """Parameters outside of their range; the text names every key, the value seen and the values wanted."""


@dataclass(frozen=True, slots=True)
class PredictParameters:
    """Parameters of all predictors; each reads its own."""

    predictor: str = "n-sigma-v2"
    """Name in the predictor catalog."""
    n: float = 5.0
    """N of N-sigma, in (0, 20]."""
    percentile: float = 99.0
    """Of `resource-central`, in (0, 100]."""
    cpu_percentile: float = 95.0
    """Of `percentile`, in (0, 100]."""
    memory_percentile: float = 98.0
    """Of `percentile`, in (0, 100]."""
    request_divisor: float = 1.1
    """`a` of `borg-default`, in [1, 10]."""
    members: tuple[str, ...] = ("n-sigma-v2", "resource-central")
    """Predictors of `max`."""
    safety_margin_percent: float | None = None
    """Raises all of a peak but cold requests, in 0..100; None: 10 for `percentile`, 0 for every other predictor."""
    cpu_half_life_seconds: float = 43_200.0
    """Time after which a CPU sample counts half, >= 60."""
    memory_half_life_seconds: float = 86_400.0
    """Time after which a memory sample counts half, >= 60."""
    cold_start_period_seconds: float = 7_200.0
    """A pod with a shorter recorded history is charged its full request, in 0..604800; 86400 suits `percentile`."""

    def __post_init__(self) -> None:
        wanted = {
            "n": (0 < self.n <= 20, "in (0, 20]"),
            "percentile": (0 < self.percentile <= 100, "in (0, 100]"),
            "cpu_percentile": (0 < self.cpu_percentile <= 100, "in (0, 100]"),
            "memory_percentile": (0 < self.memory_percentile <= 100, "in (0, 100]"),
            "request_divisor": (1 <= self.request_divisor <= 10, "in [1, 10]"),
            "members": (bool(self.members), "one predictor or more"),
            "safety_margin_percent": (0 <= (self.safety_margin_percent or 0) <= 100, "in [0, 100]"),
            "cpu_half_life_seconds": (60 <= self.cpu_half_life_seconds < float("inf"), "60 or more"),
            "memory_half_life_seconds": (60 <= self.memory_half_life_seconds < float("inf"), "60 or more"),
            "cold_start_period_seconds": (0 <= self.cold_start_period_seconds <= 604_800, "in [0, 604800]"),
        }
        wrong = [f"{key} is {getattr(self, key)}, want {want}" for key, (holds, want) in wanted.items() if not holds]
        if wrong:
            raise InvalidParameters(f"predict policy: {'; '.join(wrong)}")

    @property
    def margin_percent(self) -> float:
        """The safety margin in force for the predictor."""
        if self.safety_margin_percent is None:
            return _DEFAULT_MARGIN_PERCENT.get(self.predictor, 0.0)
        return self.safety_margin_percent

    @property
    def margin_factor(self) -> float:
        """1 + m of the formulas."""
        return (100 + self.margin_percent) / 100

    def for_predictor(self, name: str) -> PredictParameters:
        """The same parameters for another predictor."""
        return dataclasses.replace(self, predictor=name)

"""Parameters of a prediction: the predictor's name and its numbers.

Defaults and ranges are those of `controller_config.PredictPolicy`, the model of the NodeMetric's `spec.predictPolicy`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from api_types.colocation import controller_config

_DEFAULT_MARGIN_PERCENT: Final = {"percentile": 10.0}
_DEFAULTS: Final = controller_config.with_defaults(controller_config.PredictPolicy)
_SCHEMA: Final = controller_config.PredictPolicy.model_json_schema(by_alias=False)["properties"]


def _default(name: str) -> Any:
    value = getattr(_DEFAULTS, name)
    return tuple(value) if isinstance(value, list) else value


def constraints(name: str) -> Mapping[str, Any]:
    """Return the JSON schema of a parameter that is set: its type and range."""
    return next(alternative for alternative in _SCHEMA[name]["anyOf"] if alternative.get("type") != "null")


class InvalidParameters(ValueError):
    """Parameters outside of their range; the text has every key, the value seen and the values wanted."""


@dataclass(frozen=True, slots=True)
class PredictParameters:
    """Parameters of all predictors; each predictor reads its own."""

    predictor: str = _default("predictor")
    """Name in the registry of predictors."""
    n: float = _default("n")
    """N of N-sigma."""
    percentile: float = _default("percentile")
    """Percentile of `resource-central`."""
    cpu_percentile: float = _default("cpu_percentile")
    """CPU percentile of `percentile`."""
    memory_percentile: float = _default("memory_percentile")
    """Memory percentile of `percentile`."""
    request_divisor: float = _default("request_divisor")
    """`a` of `borg-default`."""
    members: tuple[str, ...] = _default("members")
    """Predictors of `max`."""
    violation_target_percent: float = _default("violation_target_percent")
    """Of `calibrated`: share of the horizons in which usage may exceed the CPU peak; half of it for memory."""
    horizon_seconds: float = _default("horizon_seconds")
    """Time for which a calibrated peak, and a forecast of the live evaluation, has to be high enough."""
    safety_margin_percent: float | None = _default("safety_margin_percent")
    """Raises all of a peak but cold requests; None: 10 for `percentile`, 0 for every other predictor."""
    cpu_half_life_seconds: float = _default("cpu_half_life_seconds")
    """Time after which a CPU sample counts half."""
    memory_half_life_seconds: float = _default("memory_half_life_seconds")
    """Time after which a memory sample counts half."""
    cold_start_period_seconds: float = _default("cold_start_period_seconds")
    """A pod with less recorded history is charged at least its full request; 86400 suits `percentile`."""
    cold_start: str = _default("cold_start")
    """Whether the history of a cold pod's workload is used in place of its request: `history` or `strict`."""

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        wrong = [
            f"{name} is {value}, want {_wanted(name)}"
            for name, value in values.items()
            if not _is_in_range(name, value)
        ]
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
        """Return the same parameters for another predictor."""
        return dataclasses.replace(self, predictor=name)


def _is_in_range(name: str, value: Any) -> bool:
    """Return whether a value is inside its range. Names of predictors are checked on lookup."""
    limits = _CONSTRAINTS[name]
    if isinstance(value, str) or value is None:
        return True
    if isinstance(value, tuple):
        return bool(len(value) >= limits.get("minItems", 0))
    is_above: bool = limits.get("exclusiveMinimum", -math.inf) < value
    is_between: bool = limits.get("minimum", -math.inf) <= value <= limits.get("maximum", math.inf)
    return math.isfinite(value) and is_above and is_between


def _wanted(name: str) -> str:
    limits = _CONSTRAINTS[name]
    if "minItems" in limits:
        return f"at least {limits['minItems']} predictor"
    if "maximum" not in limits:
        return f"{limits['minimum']} or more"
    begin = f"({limits['exclusiveMinimum']}" if "exclusiveMinimum" in limits else f"[{limits['minimum']}"
    return f"in {begin}, {limits['maximum']}]"


_CONSTRAINTS: Final = {field.name: constraints(field.name) for field in dataclasses.fields(PredictParameters)}

"""Live evaluation: forecasts on which no component acts, compared with the usage that follows.

Every horizon, each evaluated predictor forecasts the peak of the Prod pods that run then. While the horizon passes, the
usage of those of them that still run, and of S, is observed with each training. Then the forecast is closed: its peak
was either high enough, or a violation. A forecast that was not observed for longer than a prediction is valid is
dropped: a horizon that is only partly watched would read low.

A state machine without clock or I/O. Time is counted on the clock since boot, so a step of the wall clock changes
nothing. It reads predictions and changes none.

    violation = usage > peak      severity = (usage - peak) / usage of a violation
    savings = 1 - min(peak, requests) / requests

`usage` is the highest usage during the horizon of a forecast, `peak` the forecast.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple, Self

import msgspec
import numpy as np

from api_types.colocation import controller_config
from koordlet.metric_cache import aggregation
from koordlet.metric_cache.aggregation import WindowSamples
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.prod_loads import STALE_SECONDS
from koordlet.prediction.server import Prediction
from koordlet.samples import RESOURCES, UNRESERVED_SYSTEM, Amount, Name, Resource, SeriesKey, UsageSample, pod_key

HOURS: Final = 168
"""Of a week, from Monday 00:00 UTC on."""
_MONDAY_SECONDS: Final = 4 * 86_400
"""The first Monday after the begin of Unix time."""
HALF_LIFE_SECONDS: Final = 7 * 86_400.0
"""Time after which a closed forecast counts half."""
_ROUNDING: Final = 1e-6
"""Relative error of samples and their sums: they are cached with 24 bits."""


Positive = Annotated[float, msgspec.Meta(gt=0, le=1e30)]
Moment = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
_FEW: Final = msgspec.Meta(max_length=32)
"""Most predictors of a checkpoint."""


class Scores(msgspec.Struct):
    """Decayed sums over closed forecasts, in cores or bytes where they are amounts."""

    forecasts: Positive = 0.0
    violations: Amount = 0.0
    severities: Amount = 0.0
    peaks: Amount = 0.0
    requests: Positive = 0.0
    by_hour: Annotated[dict[Annotated[int, msgspec.Meta(ge=0, lt=HOURS)], Amount], msgspec.Meta(max_length=HOURS)] = {}
    """Violations by the hour of the week in which the forecast was made; hours without one are left out."""

    def __post_init__(self) -> None:
        """Raise ValueError where they are not sums over forecasts."""
        if not self.severities <= self.violations <= self.forecasts:
            raise ValueError(f"{self} are not sums over forecasts")

    def add(self, peak: float, requested: float, usage: float, made_at_seconds: float = 0.0) -> bool:
        """Add a closed forecast; return whether it is a violation."""
        is_violation = usage > peak * (1 + _ROUNDING)
        self.forecasts += 1
        self.peaks += min(peak, requested)  # of a higher one nothing is reclaimable, and not less than nothing
        self.requests += requested
        if is_violation:
            self.violations += 1
            hour = math.floor((made_at_seconds - _MONDAY_SECONDS) / 3600) % HOURS
            self.by_hour[hour] = self.by_hour.get(hour, 0.0) + 1
            self.severities += (usage - peak) / usage
        return is_violation

    def decay(self, seconds: float) -> None:
        """Make every forecast older."""
        factor = 2.0 ** -(seconds / HALF_LIFE_SECONDS)
        for name in _SUMS:
            setattr(self, name, getattr(self, name) * factor)
        self.by_hour = {hour: weight * factor for hour, weight in self.by_hour.items()}

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
        """Share of the requests above the forecast peaks."""
        return 1 - self.peaks / self.requests

    def worst_hour(self) -> tuple[int, float] | None:
        """Return the hour of the week with most violations, and their share of its forecasts; None without one."""
        if not self.by_hour:
            return None
        hour = max(self.by_hour, key=lambda hour: (self.by_hour[hour], -hour))
        return hour, min(self.by_hour[hour] * HOURS / max(self.forecasts, HOURS), 1.0)


_SUMS: Final = ("forecasts", "violations", "severities", "peaks", "requests")


class Forecast(msgspec.Struct, rename="camel"):
    """Peaks of several predictors for the same pods and the same horizon, and the usage since then.

    No component acts on a forecast. Amounts are cores and bytes.
    """

    made_at_seconds: float
    """Unix time: nothing but the hour of the week is calculated from it."""
    horizon_seconds: Amount
    parameters: dict[str, Any]
    """Parameters of all predictors."""
    pods: Annotated[list[Name], msgspec.Meta(max_length=4096)]
    """UIDs of the Prod pods at that time."""
    requested: dict[Resource, Positive]
    """Requests of these pods; a resource that none of them requests is left out, and is not evaluated."""
    capacity: dict[Resource, Amount]
    """Capacity of the node, which limits every peak; empty where it is not known."""
    peaks: Annotated[dict[Name, Annotated[dict[Resource, Amount], msgspec.Meta(min_length=2)]], _FEW]
    """Predictor -> forecast peak."""
    highest: dict[Resource, Amount] = {}
    """Highest usage so far of those of the pods that still run, and of S; empty before the first observation."""
    elapsed_seconds: Amount = 0.0
    unobserved_seconds: Amount = 0.0
    """Time since the last observation."""


class Record(msgspec.Struct):
    """Scores of one predictor, all with the same horizon and parameters."""

    horizon_seconds: Amount
    parameters: dict[str, Any]
    scores: dict[Resource, Scores]


_P90: Final = 0.9
_KEPT_FORECASTS: Final = 24
_LONGEST_PAUSE_SECONDS: Final = 86_400.0
"""After a boot only the wall clock shows how long the agent was away, and it may be wrong: scores age by a day."""
_CLOCK_STEP_SECONDS: Final = 5.0


class Plan(NamedTuple):
    """Predictors to evaluate, and the parameters of all of them."""

    predictors: tuple[str, ...]
    """The one in force and the others, each once."""
    parameters: PredictParameters

    @property
    def horizon_seconds(self) -> float:
        """Return the time for which a forecast has to be high enough."""
        return float(self.parameters.horizon_seconds)

    @classmethod
    def from_policy(cls, policy: controller_config.PredictPolicy, parameters: PredictParameters) -> Self:
        """Return the plan of a policy in force, in which every key is set."""
        names = dict.fromkeys((parameters.predictor, *(policy.evaluated_predictors or ())))
        return cls(tuple(names), parameters)


class Dropped(enum.StrEnum):
    """Why a forecast was dropped."""

    GAP = "gap"
    """Usage was not observed for more than 5 minutes."""
    RESTART = "restart"
    """The node booted, or the clock was set while the agent was away."""
    HORIZON_CHANGED = "horizon_changed"
    RESET = "reset"


class Outcome(NamedTuple):
    """Result of a closed forecast for one predictor and resource; the labels of a counter."""

    predictor: str
    resource: Resource
    is_violation: bool


class EvaluationState(msgspec.Struct):
    """Everything that a checkpoint stores of the evaluation, with the time of both clocks."""

    saved_seconds: Moment
    boot_seconds: Moment
    undecayed_seconds: Amount
    """Time by which the scores are older than when they were last decayed."""
    records: Annotated[dict[Name, Record], _FEW]
    forecast: Forecast | None = None


class LiveEvaluation:
    """Scores of the evaluated predictors, and the forecast whose horizon passes now. Not thread-safe."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        """Predictor -> its scores, in the order of the plan."""
        self.forecast: Forecast | None = None
        self.closed: collections.deque[Forecast] = collections.deque(maxlen=_KEPT_FORECASTS)
        """The last closed forecasts, without the names of their pods."""
        self.outcomes: collections.Counter[Outcome] = collections.Counter()
        self.dropped: dict[Dropped, int] = dict.fromkeys(Dropped, 0)
        self._boot_seconds: float | None = None
        self._undecayed_seconds = 0.0

    def watched(self) -> list[SeriesKey]:
        """Return the series whose samples `usage_of` needs: S and the pods of the forecast."""
        return [UNRESERVED_SYSTEM, *map(pod_key, self.forecast.pods)] if self.forecast else []

    def observe(self, boot_seconds: float, usage: UsageSample | None) -> None:
        """Add the usage of the watched series since the last call, None where it is not known."""
        passed = 0.0 if self._boot_seconds is None else max(boot_seconds - self._boot_seconds, 0.0)
        self._boot_seconds = boot_seconds
        self._undecayed_seconds += passed
        forecast = self.forecast
        if forecast is None:
            return
        forecast.elapsed_seconds += passed
        forecast.unobserved_seconds += passed
        if forecast.unobserved_seconds > STALE_SECONDS:
            self._drop(Dropped.GAP)
            return
        if usage is None:
            return
        forecast.unobserved_seconds = 0.0
        forecast.highest = {
            resource: max(value, forecast.highest.get(resource, 0.0))
            for resource, value in zip(RESOURCES, usage, strict=True)
        }
        if forecast.elapsed_seconds >= forecast.horizon_seconds:
            self._close(forecast)

    def is_due(self, plan: Plan) -> bool:
        """Return whether the next forecast is due. Drops a forecast with another horizon."""
        if self.forecast is not None and self.forecast.horizon_seconds != plan.horizon_seconds:
            self._drop(Dropped.HORIZON_CHANGED)
        return self.forecast is None

    def begin(
        self,
        now_seconds: float,
        plan: Plan,
        predictions: Mapping[str, Prediction],
        pods: Iterable[str],
        capacity: WholeAmounts | None,
    ) -> None:
        """Make the next forecast from the predictions for the Prod pods that run now.

        `predictions` is keyed by predictor; one without a prediction is left out. `pods` are the UIDs of the pods.
        Without a prediction, and on a node whose Prod pods request nothing, there is no forecast.
        """
        self.records = {name: self.records[name] for name in plan.predictors if name in self.records}
        if not predictions:
            return
        allocated = next(iter(predictions.values())).prod_allocated
        requested = _in_cores_or_bytes(allocated)
        requested = {resource: amount for resource, amount in requested.items() if amount > 0}
        if not requested:
            return
        self.forecast = Forecast(
            made_at_seconds=now_seconds,
            horizon_seconds=plan.horizon_seconds,
            parameters=_stored_parameters(plan.parameters),
            pods=list(pods),
            requested=requested,
            capacity={} if capacity is None else _in_cores_or_bytes(capacity),
            peaks={name: _in_cores_or_bytes(predicted.prod_peak) for name, predicted in predictions.items()},
        )
        for of in itertools.product(predictions, requested, (False, True)):
            self.outcomes[Outcome(*of)] += 0  # a counter that begins at 1 hides its first increment from rate()

    def export(self, now_seconds: float, boot_seconds: float) -> EvaluationState:
        """Return a copy of what a checkpoint has to store. Time up to now passes without an observation."""
        self.observe(boot_seconds, None)
        state = EvaluationState(now_seconds, boot_seconds, self._undecayed_seconds, self.records, self.forecast)
        return copy.deepcopy(state)

    def restore(self, state: EvaluationState, now_seconds: float, boot_seconds: float) -> None:
        """Continue a stored evaluation.

        The clocks show whether the node has booted since. Then the length of the pause is not certain, and the
        forecast is dropped.
        """
        paused, by_wall_clock = boot_seconds - state.boot_seconds, now_seconds - state.saved_seconds
        is_same_boot = paused >= 0 and abs(by_wall_clock - paused) <= _CLOCK_STEP_SECONDS
        self.records, self.forecast = state.records, state.forecast
        if not is_same_boot:
            paused = min(max(by_wall_clock, 0.0), _LONGEST_PAUSE_SECONDS)
            if self.forecast is not None:
                self._drop(Dropped.RESTART)
        self._undecayed_seconds, self._boot_seconds = state.undecayed_seconds, boot_seconds - paused
        self.observe(boot_seconds, None)

    def forget(self) -> None:
        """Discard all scores and the forecast."""
        self.records = {}
        if self.forecast is not None:
            self._drop(Dropped.RESET)

    def _drop(self, reason: Dropped) -> None:
        self.forecast = None
        self.dropped[reason] += 1

    def _close(self, forecast: Forecast) -> None:
        """Add the forecast to the scores. Scores of another horizon or of other parameters begin again."""
        self.forecast = None
        for record in self.records.values():
            for scores in record.scores.values():
                scores.decay(self._undecayed_seconds)
        self._undecayed_seconds = 0.0
        for name, peaks in forecast.peaks.items():
            before = self.records.get(name)
            is_comparable = (  # a parameter that is new since then is ignored
                before is not None
                and before.horizon_seconds == forecast.horizon_seconds
                and all(before.parameters.get(key, value) == value for key, value in forecast.parameters.items())
            )
            earlier = before.scores if before is not None and is_comparable else {}
            self.records[name] = record = Record(forecast.horizon_seconds, forecast.parameters, earlier)
            for resource, requested in forecast.requested.items():
                usage = min(forecast.highest[resource], forecast.capacity.get(resource, math.inf))
                scores = record.scores.setdefault(resource, Scores())
                is_violation = scores.add(peaks[resource], requested, usage, forecast.made_at_seconds)
                self.outcomes[Outcome(name, resource, is_violation)] += 1
        forecast.pods = []
        self.closed.append(forecast)


def total_usage(samples: WindowSamples) -> UsageSample | None:
    """Return the p90 of the sum of all series; the first one is S, None without a sample of it.

    While a pod is not measured there is no S. So a pod without a sample beside one of S has ended, or its usage is part
    of S.
    """
    measured = np.isfinite(samples.values[:, 0]).all(axis=0)
    if not measured.any():
        return None
    total = np.nan_to_num(samples.values[..., measured]).sum(axis=1, dtype=np.float64)
    return UsageSample(*aggregation.percentiles(total, (_P90,))[0].tolist())


def _in_cores_or_bytes(amounts: WholeAmounts) -> dict[Resource, float]:
    return {resource: amounts.in_cores_or_bytes(resource) for resource in RESOURCES}


def _stored_parameters(parameters: PredictParameters) -> dict[str, Any]:
    """Return the parameters that all predictors share, as JSON has them."""
    values = dataclasses.asdict(parameters)
    del values["predictor"]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

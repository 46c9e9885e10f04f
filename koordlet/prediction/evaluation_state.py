"""State of the live evaluation, as it is kept in memory and, as JSON, in the checkpoint."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from koordlet.prediction.evaluation_scores import Scores
from koordlet.samples import Resource

_MOST_PREDICTORS: Final = 32
_MOST_PODS: Final = 4096
_LONGEST_TEXT: Final = 1024
_LARGEST: Final = 1e30


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


class Record(msgspec.Struct, rename="camel"):
    """Scores of one predictor, all with the same horizon and parameters."""

    horizon_seconds: float
    parameters: dict[str, Any]
    scores: dict[Resource, Scores]

    def is_of(self, forecast: Forecast) -> bool:
        """Return whether a forecast has this horizon and these parameters. One that is new since then is ignored."""
        return self.horizon_seconds == forecast.horizon_seconds and all(
            self.parameters.get(name, value) == value for name, value in forecast.parameters.items()
        )


class EvaluationState(msgspec.Struct, rename="camel"):
    """Everything that a checkpoint stores of the evaluation, with the time of both clocks."""

    saved_seconds: float
    boot_seconds: float
    undecayed_seconds: float
    """Time by which the scores are older than when they were last decayed."""
    records: dict[str, Record]
    forecast: Forecast | None = None


def decode(stored: bytes) -> EvaluationState:
    """Return a stored state. Raises ValueError for what no agent can have stored."""
    try:
        state = msgspec.json.decode(stored, type=EvaluationState)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"evaluation: {error}") from error
    _require_text(state.records, _MOST_PREDICTORS)
    _require_amounts(abs(seconds) for seconds in (state.saved_seconds, state.boot_seconds))
    _require_amounts([state.undecayed_seconds])
    for record in state.records.values():
        _require_amounts([record.horizon_seconds])
        for scores in record.scores.values():
            _require_scores(scores)
    if state.forecast is not None:
        _require_forecast(state.forecast)
    return state


def _require_scores(scores: Scores) -> None:
    _require_amounts(msgspec.structs.astuple(scores))
    if not scores.severities <= scores.violations <= scores.forecasts or not min(scores.forecasts, scores.requests) > 0:
        raise ValueError(f"evaluation: {scores} are not sums over forecasts")


def _require_forecast(forecast: Forecast) -> None:
    _require_text(forecast.pods, _MOST_PODS)
    _require_text(forecast.peaks, _MOST_PREDICTORS)
    amounts = (forecast.requested, forecast.capacity, forecast.highest, *forecast.peaks.values())
    _require_amounts(itertools.chain.from_iterable(each.values() for each in amounts))
    _require_amounts([forecast.horizon_seconds, forecast.elapsed_seconds, forecast.unobserved_seconds])
    if not all(forecast.requested.values()) or any(peaks.keys() != set(Resource) for peaks in forecast.peaks.values()):
        raise ValueError("evaluation: a forecast lacks a peak, or has a resource that no pod requests")


def _require_text(texts: Collection[str], most: int) -> None:
    longest = max(map(len, texts), default=0)
    if len(texts) > most or longest > _LONGEST_TEXT:
        raise ValueError(f"evaluation: {len(texts)} names of up to {longest} characters, want {most} at most")


def _require_amounts(values: Iterable[float]) -> None:
    for value in values:
        if not (math.isfinite(value) and 0 <= value <= _LARGEST):
            raise ValueError(f"evaluation: seen {value}, want 0 to {_LARGEST:g}")

"""Validation of the values of a checkpoint: what no agent can have recorded is refused.

A value that is not a number, negative or absurdly large would otherwise spoil every later prediction, or stop the
agent at each start until the file is removed. Each function raises ValueError with what was seen and what is wanted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from koordlet.prediction.buckets import FloatArray
from koordlet.prediction.calibration.node_calibration import NodeCalibrationState
from koordlet.prediction.evaluation import EvaluationState
from koordlet.prediction.histogram_bank import MAX_HALF_LIVES_FROM_REFERENCE, BankState
from koordlet.prediction.packages.guard import MOST_STATE_BYTES
from koordlet.prediction.usage_models import BUCKETS, ModelsState
from koordlet.samples import RESOURCES, Resource, SeriesKind

_MOST_ROWS: Final = 4096
"""Four times the rows of the largest supported node."""
# A clock that was never set starts in 1970, and a shift may move a first sample before that.
_TIMES: Final = (-1e10, 2.5e11)  # the years 1653 to 9892
_LONGEST_HISTORY_SECONDS: Final = 3.2e9
"""A century. All times are shifted together to the present, which must not move any of them out of range."""
_HALF_LIVES: Final = (1.0, 1e13)
_MOST_WEIGHT: Final = 2.0**100  # 2^60 for the newest sample, and as many samples as fit
_MOST_TIMES_THE_LARGEST_BUCKET: Final = 1000.0
_ROUNDING_SECONDS: Final = 60.0
_UNDERFLOW: Final = 2.0**-900
"""The weight of a row that is silent for very long may have become 0 before its M2."""
_LONGEST_TEXT: Final = 1024
_MOST_PREDICTORS: Final = 32
_MOST_AMOUNT: Final = 1e30


def require_models(models: ModelsState, saved_seconds: float) -> None:
    """Require models that were recorded until a time."""
    _require("savedSeconds", saved_seconds, *_TIMES)
    _require_texts([key.identity for key in models.keys], _MOST_ROWS)
    if len(set(models.keys)) < len(models.keys) or any(key.kind is SeriesKind.CONTAINER for key in models.keys):
        raise ValueError(f"{len(models.keys)} rows, want one of each series, and none of a container")
    for resource in RESOURCES:
        _require_bank(resource, models.banks[resource], len(models.keys), saved_seconds)
    times = np.stack([models.banks[resource].columns[3:5] for resource in RESOURCES])
    if np.isnan(times[:, 1]).all(axis=0).any():
        raise ValueError("rows without a sample")
    age_seconds = np.nanmax(times, initial=-np.inf) - times[np.isfinite(times)]
    _require("ages of samples", age_seconds, 0.0, _LONGEST_HISTORY_SECONDS)


def _require_calibration(calibration: NodeCalibrationState | None) -> None:
    """Require the calibration of both resources for the same series."""
    if calibration is None:
        return
    if len(set(calibration.keys)) < len(calibration.keys):
        raise ValueError(f"calibration: {len(calibration.keys)} rows, want one of each series")
    for resource in RESOURCES:
        _require(f"unit of {resource}", calibration.units[resource], 1e-9, _MOST_AMOUNT)
        if not calibration.resources[resource].is_possible(resource, len(calibration.keys)):
            raise ValueError(f"calibration of {resource}: seen impossible values")


def _require_evaluation(state: EvaluationState | None) -> None:
    """Require sums over forecasts, and a forecast of every resource that its pods request."""
    if state is None:
        return
    _require_texts(state.records, _MOST_PREDICTORS)
    _require("times of the evaluation", [state.saved_seconds, state.boot_seconds], -_MOST_AMOUNT, _MOST_AMOUNT)
    amounts = [state.undecayed_seconds]
    for record in state.records.values():
        amounts.append(record.horizon_seconds)
        for scores in record.scores.values():
            amounts += msgspec.structs.astuple(scores)
            if not scores.severities <= scores.violations <= scores.forecasts:
                raise ValueError(f"evaluation: {scores} are not sums over forecasts")
            _require("scores", [scores.forecasts, scores.requests], np.nextafter(0, 1), _MOST_AMOUNT)
    if (forecast := state.forecast) is not None:
        _require_texts(forecast.pods, _MOST_ROWS)
        _require_texts(forecast.peaks, _MOST_PREDICTORS)
        by_resource = (forecast.requested, forecast.capacity, forecast.highest, *forecast.peaks.values())
        amounts += itertools.chain.from_iterable(values.values() for values in by_resource)
        amounts += [forecast.horizon_seconds, forecast.elapsed_seconds, forecast.unobserved_seconds]
        is_whole = all(peaks.keys() == set(Resource) for peaks in forecast.peaks.values())
        if not is_whole or not all(forecast.requested.values()):
            raise ValueError("evaluation: a forecast lacks a peak, or has a resource that no pod requests")
    _require("amounts of the evaluation", amounts, 0.0, _MOST_AMOUNT)


def _require_packages(states: dict[str, bytes]) -> None:
    """Require states of the size that an agent stores."""
    _require_texts(states, len(states))
    _require("bytes of the states of packages", [len(state) for state in states.values()], 0, MOST_STATE_BYTES)


PARTS: Final[Mapping[str, Callable[[Any], None]]] = {
    "evaluation": _require_evaluation,
    "calibration": _require_calibration,
    "packages": _require_packages,
}
"""What a checkpoint has beside the models."""


def _require_bank(resource: Resource, bank: BankState, rows: int, saved_seconds: float) -> None:
    starts = BUCKETS[resource].starts
    if bank.columns.shape != (7, rows) or bank.cells.shape != bank.cell_weights.shape or bank.cells.ndim != 1:
        raise ValueError(f"{resource}: arrays of {bank.columns.shape}, {bank.cells.shape}, {bank.cell_weights.shape}")
    _require(f"{resource} cells", bank.cells, 0, rows * len(starts) - 1)
    _require(f"{resource} steps between cells", np.diff(bank.cells), 1, np.inf)
    weight, mean, m2, first, last, recorded, newest = bank.columns
    largest = _MOST_TIMES_THE_LARGEST_BUCKET * float(starts[-1])
    _require(f"{resource} cell weights", bank.cell_weights, 0.0, _MOST_WEIGHT)
    _require(f"{resource} weights", weight, 0.0, _MOST_WEIGHT)
    _require(f"{resource} means", mean, 0.0, largest)
    _require(f"{resource} M2", m2, 0.0, (weight + _UNDERFLOW) * largest**2)
    is_empty = np.isnan(last)
    if np.any(is_empty != np.isnan(first)) or np.any(is_empty != np.isnan(newest)) or np.any(weight[is_empty] != 0):
        raise ValueError(f"{resource} rows have a weight or a value without times of samples")
    _require(f"{resource} newest values", newest[~is_empty], 0.0, largest)
    _require(f"{resource} times", np.stack([first, last])[:, ~is_empty], *_TIMES)
    longest = np.where(is_empty, 0.0, last - first)
    _require(f"{resource} times from the first to the last sample", longest, 0.0, np.inf)
    _require(f"{resource} recorded seconds", recorded, 0.0, longest + _ROUNDING_SECONDS)
    _require_decay(resource, bank, saved_seconds)


def _require_decay(resource: Resource, bank: BankState, saved_seconds: float) -> None:
    """Require a reference between the newest sample and 61 half-lives before it, or shortly after that sample.

    New samples would weigh nothing beside the stored ones if the reference were far in the future.
    """
    if np.isinf(bank.half_life_seconds) and np.isnan(bank.reference_seconds):
        return  # never trained
    _require(f"{resource} half-life", bank.half_life_seconds, *_HALF_LIVES)
    newest = float(np.fmax.reduce(bank.columns[4], initial=np.nan))
    if np.isnan(bank.reference_seconds) and np.isnan(newest):
        return
    latest = float(np.fmax(newest, saved_seconds))
    oldest = float(np.fmin(newest, saved_seconds)) - (MAX_HALF_LIVES_FROM_REFERENCE + 1) * bank.half_life_seconds
    _require(f"{resource} reference", bank.reference_seconds, oldest, latest + _ROUNDING_SECONDS)


def _require_texts(texts: Collection[str], most: int) -> None:
    longest = max(map(len, texts), default=0)
    if len(texts) > most or longest > _LONGEST_TEXT:
        raise ValueError(
            f"{len(texts)} names of up to {longest} characters, want at most {most} of {_LONGEST_TEXT} characters"
        )


def _require(what: str, numbers: npt.ArrayLike, least: float, most: float | FloatArray) -> None:
    values = np.asarray(numbers, float)
    is_valid = np.isfinite(values) & (values >= least) & (values <= most)
    if not is_valid.all():
        example = np.atleast_1d(values)[~np.atleast_1d(is_valid)][0]
        raise ValueError(f"{what}: seen {example}, want finite numbers from {least:g} to {np.max(most):g}")

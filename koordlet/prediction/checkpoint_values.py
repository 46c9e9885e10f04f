"""Validation of the values of a checkpoint: what no agent can have recorded is refused.

A value that is not a number, negative or absurdly large would otherwise spoil every later prediction, or stop the
agent at each start until the file is removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from koordlet.prediction.buckets import FloatArray
from koordlet.prediction.histogram_bank import MAX_HALF_LIVES_FROM_REFERENCE, BankState
from koordlet.prediction.usage_models import BUCKETS, ModelsState
from koordlet.samples import Resource, SeriesKind

MOST_ROWS: Final = 4096
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


def require_valid(models: ModelsState, saved_seconds: float, carried_weight: Mapping[Resource, float]) -> None:
    """Raise ValueError, with the value seen and the values wanted, unless an agent can have recorded all of this."""
    _require_between("savedAt", saved_seconds, *_TIMES)
    keys = models.keys
    if len(keys) > MOST_ROWS or len(set(keys)) < len(keys):
        raise ValueError(f"{len(keys)} rows of {len(set(keys))} series, want one row a series and at most {MOST_ROWS}")
    if any(key.kind is SeriesKind.CONTAINER or len(key.identity) > _LONGEST_TEXT for key in keys):
        raise ValueError(f"a row of a container, or a name of more than {_LONGEST_TEXT} characters")
    for resource, bank in models.banks.items():
        _require_between(f"{resource} carriedWeight", carried_weight[resource], 0.0, _MOST_WEIGHT * MOST_ROWS)
        _require_valid_bank(resource, bank, saved_seconds)
    has_sample = np.any([np.isfinite(bank.columns[4]) for bank in models.banks.values()], axis=0)
    if not has_sample.all():
        raise ValueError(f"{np.count_nonzero(~has_sample)} rows without a sample")
    times = np.concatenate([bank.columns[3:5].ravel() for bank in models.banks.values()])
    times = times[np.isfinite(times)]
    if len(keys):
        _require_between("times of all samples", np.max(times) - times, 0.0, _LONGEST_HISTORY_SECONDS)


def _require_valid_bank(resource: Resource, bank: BankState, saved_seconds: float) -> None:
    starts = BUCKETS[resource].starts
    rows = bank.columns.shape[1]
    if np.any(bank.cells >= rows * len(starts)) or np.any(np.diff(bank.cells) <= 0):
        raise ValueError(f"{resource} cells are not ascending numbers below {rows} * {len(starts)}")
    weight, mean, m2, first, last, recorded, newest = bank.columns
    largest = _MOST_TIMES_THE_LARGEST_BUCKET * float(starts[-1])
    _require_between(f"{resource} cell weights", bank.cell_weights, 0.0, _MOST_WEIGHT)
    _require_between(f"{resource} weights", weight, 0.0, _MOST_WEIGHT)
    _require_between(f"{resource} means", mean, 0.0, largest)
    _require_between(f"{resource} M2", m2, 0.0, (weight + _UNDERFLOW) * largest**2)
    is_empty = np.isnan(last)
    _require_between(f"{resource} newest values", newest[~is_empty], 0.0, largest)
    if np.any(is_empty != np.isnan(first)) or np.any(is_empty != np.isnan(newest)) or np.any(weight[is_empty] != 0):
        raise ValueError(f"{resource} rows have a weight or a value without times of samples")
    for name, times in (("first", first), ("last", last)):
        _require_between(f"{resource} times of the {name} samples", times[~is_empty], *_TIMES)
    longest = np.where(is_empty, 0.0, last - first)
    _require_between(f"{resource} times from the first to the last sample", longest, 0.0, np.inf)
    _require_between(f"{resource} recorded seconds", recorded, 0.0, longest + _ROUNDING_SECONDS)
    _require_valid_decay(resource, bank, saved_seconds)


def _require_valid_decay(resource: Resource, bank: BankState, saved_seconds: float) -> None:
    """Require a reference between the newest sample and 61 half-lives before it, or shortly after that sample.

    New samples would weigh nothing beside the stored ones if the reference were far in the future.
    """
    if np.isinf(bank.half_life_seconds) and np.isnan(bank.reference_seconds):
        return  # never trained
    _require_between(f"{resource} halfLifeSeconds", bank.half_life_seconds, *_HALF_LIVES)
    newest = float(np.fmax.reduce(bank.columns[4], initial=np.nan))
    if np.isnan(bank.reference_seconds) and np.isnan(newest):
        return
    latest = float(np.fmax(newest, saved_seconds))
    oldest = float(np.fmin(newest, saved_seconds)) - (MAX_HALF_LIVES_FROM_REFERENCE + 1) * bank.half_life_seconds
    _require_between(f"{resource} referenceSeconds", bank.reference_seconds, oldest, latest + _ROUNDING_SECONDS)


def _require_between(what: str, seen: float | FloatArray, least: float, most: float | FloatArray) -> None:
    is_valid = np.isfinite(seen) & (np.asarray(seen) >= least) & (np.asarray(seen) <= most)
    if not np.all(is_valid):
        example = np.atleast_1d(np.asarray(seen, float))[~np.atleast_1d(is_valid)][0]
        raise ValueError(f"{what}: seen {example}, want finite numbers from {least:g} to {np.max(most):g}")

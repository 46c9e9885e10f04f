"""Read usage traces from a wide CSV, gzipped or not: a column `t` of seconds, then one for each series.

An empty cell is a missing value. The unit follows from the largest value of the file, see `Unit`.
"""

import csv
import enum
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from koordctl.backtest import gaps


class Unit(enum.StrEnum):
    """Unit of a value: what the largest one is at most, as a share of what the series requests."""

    SHARE = "shares of the request"
    PERCENT = "percent of the request"
    HALF_PERCENT = "half percents of the request"
    OWN_LARGEST = "shares of the largest value of each series"


_LARGEST = {Unit.SHARE: 1.5, Unit.OWN_LARGEST: 10.0, Unit.PERCENT: 100.0, Unit.HALF_PERCENT: 200.0}
_DIVISOR = {Unit.SHARE: 1.0, Unit.PERCENT: 100.0, Unit.HALF_PERCENT: 200.0}


@dataclass(frozen=True, eq=False)
class Traces:
    """Series of one step and one beginning. `shares` is (series, steps), NaN where missing."""

    names: tuple[str, ...]
    step_seconds: int
    shares: np.ndarray
    unit: Unit = Unit.SHARE


def read(path: Path) -> Traces:
    """Return every series of a file that has a value. Raises ValueError where times are not evenly spaced."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        rows = csv.reader(file)
        names = next(rows)[1:]
        cells = np.array([[value or "nan" for value in row] for row in rows]).astype(float)
    steps = np.unique(np.diff(cells[:, 0]))
    if len(steps) != 1 or steps[0] <= 0:
        raise ValueError(f"{path}: times are {steps.tolist()} s apart, want one step greater than 0")
    values = cells[:, 1:].T
    used = np.isfinite(values).any(axis=1)
    values = gaps.without_short_gaps(values[used], gaps.SHORT_GAP_SECONDS // int(steps[0]))
    unit = _unit(values)
    own_largest = np.maximum(np.nanmax(values, axis=1, keepdims=True), np.finfo(float).tiny)
    shares = values / (own_largest if unit is Unit.OWN_LARGEST else _DIVISOR[unit])
    return Traces(
        tuple(name for name, is_used in zip(names, used, strict=True) if is_used), int(steps[0]), shares, unit
    )


def _unit(values: np.ndarray) -> Unit:
    largest = np.nanmax(values)
    return next((unit for unit, limit in _LARGEST.items() if largest <= limit), Unit.OWN_LARGEST)

"""Read usage traces from a wide CSV, gzipped or not: a column `t` of seconds, then one for each series.

An empty cell is a missing value, and so is a negative one or `nan`. The unit follows from the largest value of the
file, see `Unit`.
"""

import csv
import enum
import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from koordctl.backtest import node_history

_LEAST_ROWS = 2
_MOST_MISSING = 20
"""A file with less than one row of so many has a wrong time in it."""


class TraceUnit(enum.StrEnum):
    """Unit of a value: what the largest one is at most, as a share of what the series requests."""

    SHARE = "shares of the request"
    PERCENT = "percent of the request"
    HALF_PERCENT = "half percents of the request"
    OWN_LARGEST = "shares of the largest value of each series"


_LARGEST = {TraceUnit.SHARE: 1.5, TraceUnit.OWN_LARGEST: 10.0, TraceUnit.PERCENT: 100.0, TraceUnit.HALF_PERCENT: 200.0}
_DIVISOR = {TraceUnit.SHARE: 1.0, TraceUnit.PERCENT: 100.0, TraceUnit.HALF_PERCENT: 200.0}


@dataclass(frozen=True, eq=False)
class Traces:
    """Series of one step and one beginning. `shares` is (series, steps), NaN where missing."""

    names: tuple[str, ...]
    step_seconds: int
    shares: np.ndarray
    unit: TraceUnit = TraceUnit.SHARE


def read(path: Path) -> Traces:
    """Return every series of a file that has a value; a row that is missing is a missing value of every series.

    Raises ValueError, with file and line, for a file without values and for cells or times that cannot be used.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            names = next(rows, [])[1:]
            table = [_numbers(path, rows.line_num, row, len(names) + 1) for row in rows if row]
    except (EOFError, UnicodeDecodeError, csv.Error, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: {error}; want a CSV in UTF-8, gzipped where its name ends with .gz") from None
    if len(table) < _LEAST_ROWS or not names:
        raise ValueError(f"{path}: {len(table)} rows of {len(names)} series, want a header and at least {_LEAST_ROWS}")
    cells = np.array(table)
    step_seconds, positions = _evenly(path, cells[:, 0])
    values = np.full((len(names), positions[-1] + 1), np.nan)
    values[:, positions] = cells[:, 1:].T
    values[~np.isfinite(values) | (values < 0)] = np.nan
    used = np.flatnonzero(np.isfinite(values).any(axis=1))
    if not len(used):
        raise ValueError(f"{path}: no series has a value, want usage as numbers that are not negative")
    values = node_history.without_short_gaps(values[used], node_history.SHORT_GAP_SECONDS // step_seconds)
    largest = np.nanmax(values)
    unit = next((unit for unit, limit in _LARGEST.items() if largest <= limit), TraceUnit.OWN_LARGEST)
    own_largest = np.maximum(np.nanmax(values, axis=1, keepdims=True), np.finfo(float).tiny)
    shares = values / (own_largest if unit is TraceUnit.OWN_LARGEST else _DIVISOR[unit])
    return Traces(tuple(names[index] for index in used), step_seconds, shares, unit)


def _numbers(path: Path, line: int, row: list[str], count: int) -> list[float]:
    """Return the cells of a line."""
    if len(row) != count:
        raise ValueError(f"{path}, line {line}: {len(row)} cells, want {count} as in the header")
    try:
        return [float(value) if value.strip() else math.nan for value in row]
    except ValueError as error:
        raise ValueError(f"{path}, line {line}: {error}; want numbers, or empty cells for missing values") from None


def _evenly(path: Path, times: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the step of the times in seconds, and the number of steps from the first to each."""
    passed = np.diff(times)
    step = float(passed.min())
    if not step >= 1:  # also for NaN
        raise ValueError(
            f"{path}: times are {np.unique(passed).tolist()[:5]} s apart, want them to grow by whole steps"
        )
    positions = (times - times[0]) / step
    if (positions != np.round(positions)).any() or step != round(step):
        raise ValueError(f"{path}: times are {np.unique(passed).tolist()[:5]} s apart, want multiples of one step")
    if positions[-1] >= _MOST_MISSING * len(times):
        raise ValueError(f"{path}: {len(times)} rows of {positions[-1] + 1:.0f}, want at least one of {_MOST_MISSING}")
    return round(step), positions.astype(int)

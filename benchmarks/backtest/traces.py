"""Read CPU usage of virtual machines from a gzipped wide CSV: a column `t` of seconds, then one for each series.

A value is the share of the virtual machine that was used, in steps of half a percent; an empty cell is a missing one.
"""

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

STEPS_PER_WHOLE = 200  # half percents


@dataclass(frozen=True, eq=False)
class Traces:
    """Series of one step and one beginning. `shares` is (series, steps), 0..1, NaN where missing."""

    names: tuple[str, ...]
    step_seconds: int
    shares: np.ndarray


def read(path: Path) -> Traces:
    """Return every series of a file. Raises ValueError with the file where its times are not evenly spaced."""
    with gzip.open(path, "rt", newline="") as file:
        rows = csv.reader(file)
        names = tuple(next(rows)[1:])
        cells = np.array([[value or "nan" for value in row] for row in rows]).astype(float)
    steps = np.unique(np.diff(cells[:, 0]))
    if len(steps) != 1 or steps[0] <= 0:
        raise ValueError(f"{path}: times are {steps.tolist()} s apart, want one step greater than 0")
    return Traces(names, int(steps[0]), cells[:, 1:].T / STEPS_PER_WHOLE)

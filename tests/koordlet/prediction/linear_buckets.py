"""Buckets of one size, with which results are easy to compute by hand, and weights of a bank."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class LinearBuckets:
    """start(n) = n * size, ceil(max / size) + 1 buckets."""

    max_value: float
    bucket_size: float
    epsilon: float
    starts: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        count = int(np.ceil(self.max_value / self.bucket_size)) + 1
        object.__setattr__(self, "starts", np.arange(count) * self.bucket_size)

    @property
    def identity(self):
        return repr(self)

    def positions(self, values):
        position = np.trunc(values / self.bucket_size)
        return np.clip(position, 0, len(self.starts) - 1).astype(np.intp)


def bucket_weights(bank, rows, at_seconds):
    """Return the weight of each bucket decayed to a time; shape (rows, buckets)."""
    state = bank.state(rows)
    weights = np.zeros((len(rows), len(bank.buckets.starts)))
    weights.put(state.cells, state.cell_weights)
    return weights * bank.decay_until(at_seconds)


def total_weight(bank, rows, at_seconds):
    """Return the weight of all samples of each row decayed to a time."""
    return bank.state(rows).columns[0] * bank.decay_until(at_seconds)


def is_empty(bank, rows):
    return np.isnan(bank.percentiles(rows, (1.0,))[:, 0])

"""Fill short gaps of series. No I/O."""

from typing import Final

import numpy as np

SHORT_GAP_SECONDS: Final = 3600
"""A shorter gap has the value before it."""


def without_short_gaps(values: np.ndarray, most_steps: int) -> np.ndarray:
    """Fill gaps of at most `most_steps` steps with the value before each."""
    missing = np.isnan(values)
    filled_at = np.where(missing, 0, np.arange(values.shape[1]))
    before = np.maximum.accumulate(filled_at, axis=1)
    filled = np.take_along_axis(values, before, axis=1)
    next_at = np.where(missing, values.shape[1], filled_at)
    after = np.minimum.accumulate(next_at[:, ::-1], axis=1)[:, ::-1]
    is_short = missing & (after - before - 1 <= most_steps) & (after < values.shape[1])
    return np.where(is_short, filled, values)

"""Round as the plugins of Koordinator and Trimaran do: to the nearest integer, halves away from zero.

Both follow Go's math.Round: 57.5 -> 58, -57.5 -> -58, 0.49999999999999994 -> 0.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def half_away_from_zero(values: Floats) -> Floats:
    """Round an array of any shape; return whole numbers as floats. NaN stays NaN."""
    whole = np.trunc(values)
    rounded: Floats = whole + np.copysign(np.abs(values - whole) >= 0.5, values)
    return rounded


def int_half_away_from_zero(value: float) -> int:
    """Round one finite number; return an integer."""
    whole = math.trunc(value)
    if abs(value - whole) < 0.5:
        return whole
    return whole + (1 if value > 0 else -1)

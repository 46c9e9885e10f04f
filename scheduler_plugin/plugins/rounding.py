"""Rounding as the plugins of Koordinator and Trimaran do it: to the nearest integer, halves away from zero."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def half_away_from_zero(values: Floats) -> Floats:
    """Nearest integers, as floats; 57.5 -> 58, -57.5 -> -58, 0.49999999999999994 -> 0. NaN stays NaN."""
    whole = np.trunc(values)
    rounded: Floats = whole + np.copysign(np.abs(values - whole) >= 0.5, values)
    return rounded

"""Rounding, compared with exact decimal arithmetic."""

from __future__ import annotations

import decimal
import math

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_plugin.state import rounding

NUMBERS = st.one_of(
    st.floats(-1e12, 1e12),
    st.integers(-(10**12), 10**12).map(lambda doubled: doubled / 2),
)


@given(NUMBERS)
@example(0.49999999999999994)
@example(-0.5)
def test_rounds_to_the_nearest_integer_and_halves_away_from_zero(number: float) -> None:
    nearest = decimal.Decimal(number).to_integral_value(decimal.ROUND_HALF_UP)  # of the magnitude: away from zero
    assert rounding.half_away_from_zero(np.array([number])).tolist() == [float(nearest)]
    assert rounding.int_half_away_from_zero(number) == int(nearest)


def test_nan_stays_nan() -> None:
    assert math.isnan(rounding.half_away_from_zero(np.array([math.nan]))[0])

"""Parse amounts into vectors: one integer per resource, in the order of the estimator's `resources`.

Parsing is optimised, because each NodeMetric holds about a hundred quantities.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from api_types import names
from api_types.kubernetes import pods, quantities

Vector = tuple[int, ...]
"""One integer per resource of `EstimatorArgs.resources`, in its order; cpu in milli-cores, the rest in base units."""

LARGEST: Final = 2**53
"""Limit of every amount (8 PiB, 9 * 10**12 cores), above any real node. It keeps sums within 64 bits."""
LARGEST_SUM: Final = 2**61
"""Limit of a sum of any number of amounts, where two are added in 64 bits: exact for 256 of the largest amounts."""

_CPU: Final = names.CPU
_SAFE_LENGTH: Final = 15  # any number of so many digits is below LARGEST, 9 * 10**15


def cut(amount: int) -> int:
    """Limit an amount to -LARGEST..LARGEST, so that sums fit 64 bits."""
    return max(-LARGEST, min(amount, LARGEST))


def vector(quantity_map: pods.QuantityMap | None, resources: tuple[str, ...]) -> Vector | None:
    """Return the result of `amounts` as a vector."""
    parsed = amounts(quantity_map, resources)
    return None if parsed is None else tuple(parsed)


def amounts(quantity_map: pods.QuantityMap | None, resources: tuple[str, ...]) -> list[int] | None:
    """Parse a resource map into integers in `resources` order, 0 if absent.

    Return None if any value is malformed, negative or above LARGEST. An agent writes plain digits, and milli-cores for
    cpu: these two forms are parsed here, the rest by `quantities`.
    """
    if not quantity_map:
        return [0] * len(resources)
    parsed = []
    for name in resources:
        quantity = quantity_map.get(name)
        if quantity is None:
            parsed.append(0)
            continue
        if type(quantity) is str and len(quantity) <= _SAFE_LENGTH:
            digits = quantity if name != _CPU else quantity[:-1] if quantity[-1:] == "m" else ""
            if digits.isdecimal() and digits.isascii():
                parsed.append(int(digits))
                continue
        try:
            amount = quantities.resource_units(name, quantity)
        except quantities.InvalidQuantity:
            return None
        if not 0 <= amount <= LARGEST:
            return None
        parsed.append(amount)
    return parsed


def half_away_from_zero(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round to the nearest integer, halves away from zero as Go's math.Round; NaN stays NaN.

    57.5 -> 58, -57.5 -> -58, 0.49999999999999994 -> 0.
    """
    whole = np.trunc(values)
    return whole + np.copysign(np.abs(values - whole) >= 0.5, values)


def int_half_away_from_zero(value: float) -> int:
    """Round one finite number in the same way; return an integer."""
    whole = math.trunc(value)
    if abs(value - whole) < 0.5:
        return whole
    return whole + (1 if value > 0 else -1)

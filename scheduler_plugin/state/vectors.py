"""Parse amounts into vectors: one integer per resource, in the order of the estimator's `resources`.

Parsing is optimised, because each NodeMetric holds about a hundred quantities.
"""

from __future__ import annotations

from typing import Final

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

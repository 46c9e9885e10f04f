"""Quantities of a report -> integers over the policy's resources. Fast, because each report holds a hundred."""

from __future__ import annotations

from typing import Final

from api_types import names
from api_types.kubernetes import pods, quantities
from scheduler_plugin.state.estimator import LARGEST, Vector

_CPU: Final = names.CPU
_SAFE_LENGTH: Final = 15  # digits, whatever they are, stay below LARGEST, 9 * 10**15


def vector(quantity_map: pods.QuantityMap | None, resources: tuple[str, ...]) -> Vector | None:
    """Same as `amounts`, as a vector."""
    found = amounts(quantity_map, resources)
    return None if found is None else tuple(found)


def amounts(quantity_map: pods.QuantityMap | None, resources: tuple[str, ...]) -> list[int] | None:
    """Units of each resource, 0 where it is absent; None where one cannot be read or cannot be.

    An agent writes plain digits, and milli-cores for cpu: these two are read here, the rest by `quantities`.
    """
    if not quantity_map:
        return [0] * len(resources)
    found = []
    for name in resources:
        quantity = quantity_map.get(name)
        if quantity is None:
            found.append(0)
            continue
        if type(quantity) is str and len(quantity) <= _SAFE_LENGTH:
            digits = quantity if name != _CPU else quantity[:-1] if quantity[-1:] == "m" else ""
            if digits.isdecimal() and digits.isascii():
                found.append(int(digits))
                continue
        try:
            amount = quantities.resource_units(name, quantity)
        except quantities.InvalidQuantity:
            return None
        if not 0 <= amount <= LARGEST:
            return None
        found.append(amount)
    return found

"""Convert Kubernetes quantities to exact integers: CPU in milli-cores, memory in bytes, both rounded up.

Grammar and values are those of `ParseQuantity` (apimachinery), by which the API server, kubelet and kube-scheduler read
them: a signed decimal number, then nothing, a decimal suffix (n u m k M G T P E), a binary suffix (Ki Mi Gi Ti Pi Ei)
or a decimal exponent (e3, E-2). Zeros and digits may be any number. Arithmetic is exact (`Decimal`, `int`); a float
never appears.
"""

from __future__ import annotations

import decimal
import functools
import re
from collections.abc import Mapping
from decimal import ROUND_UP, Decimal
from typing import Final

from api_types import names

Quantity = str | int | float | Decimal
"""Types that the wire may have where a quantity is expected."""

_SUFFIX: Final = r"[numkMGTPE]|[KMGTPE]i"
_GRAMMAR: Final = re.compile(rf"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:({_SUFFIX})|[eE]([+-]?)([0-9]+))?")
PATTERN: Final = rf"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)({_SUFFIX}|[eE][+-]?[0-9]+)?$"
"""The grammar as a regular expression for schemas, without texts like `k`, which Kubernetes takes for 0."""
_POWERS_OF_TEN: Final = {"n": -9, "u": -6, "m": -3, **{suffix: 3 * power for power, suffix in enumerate("kMGTPE", 1)}}
_BINARY: Final = {suffix + "i": 1024**power for power, suffix in enumerate("KMGTPE", 1)}
MOST: Final = 2**63 - 1
"""Largest amount that Kubernetes counts, in any unit. The grammar allows larger ones."""
DECISIVE: Final = frozenset((names.CPU, names.MEMORY, *names.MID_RESOURCES, names.BATCH_CPU, names.BATCH_MEMORY))
"""Resources of pods by which anything is decided: an unreadable amount of another one costs nothing."""
Exact = dict[str, int | Decimal]
"""Amounts of resources, not rounded yet."""
_NANO: Final = Decimal("1e-9")
_EXACT: Final = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
_SHORT: Final = 64
"""Characters of a text that an error repeats. Longer texts are not cached, so that the cache is bounded."""


class InvalidQuantity(ValueError):
    """Text that is not a Kubernetes quantity."""


class TooLarge(InvalidQuantity):
    """An amount that is more than Kubernetes counts, or less than it counts below zero."""


def _value(parts: re.Match[str]) -> Decimal | None:
    """Return the value of a text of the grammar; None where Kubernetes refuses it."""
    sign, whole, fraction, suffix, exponent_sign, exponent = parts.groups("")
    power = int(exponent_sign + exponent.lstrip("0")[:20].zfill(1)) if exponent else _POWERS_OF_TEN.get(suffix, 0)
    scale = (power - len(fraction) + 2**31) % 2**32 - 2**31  # Kubernetes counts it in 32 bits
    is_without_digits = not whole and not fraction
    if not -MOST - 1 <= power <= MOST or (is_without_digits and (scale < -9 or suffix in ("Pi", "Ei"))):
        return None
    digits = (whole + fraction).lstrip("0")
    value = Decimal(f"{sign}{digits}e{scale}") if digits else Decimal(0)
    if suffix in _BINARY:
        value = max(min(_EXACT.multiply(value, Decimal(_BINARY[suffix])), Decimal(MOST)), Decimal(-MOST))
    return value.quantize(_NANO, ROUND_UP, _EXACT) if scale < -9 else value


def parse(quantity: Quantity) -> Decimal:
    """Return the exact value of a quantity in its base unit (cores, bytes). Raises InvalidQuantity."""
    if isinstance(quantity, bool) or not isinstance(quantity, (str, int, float, Decimal)):
        raise InvalidQuantity(f"{quantity!r} is not a quantity, want text or a number")
    if isinstance(quantity, str):
        match = _GRAMMAR.fullmatch(quantity)
        read = _value(match) if match and quantity else None
        if read is None:
            raise InvalidQuantity(
                f"{quantity[:_SHORT]!r} is not a quantity, want a number with a suffix like 500m, 1.5, 2k or 4Gi"
            )
        return read
    value = Decimal(str(quantity)) if isinstance(quantity, float) else Decimal(quantity)
    if not value.is_finite():
        raise InvalidQuantity(f"{quantity!r} is not a quantity, want a finite number")
    return value


def round_up(value: Decimal) -> int:
    """Round away from zero to an integer, as Kubernetes does when it reads a quantity in a coarser unit."""
    return int(value.to_integral_value(ROUND_UP))


def _exact_units(quantity: Quantity, units_in_one: int) -> int | Decimal:
    value = _EXACT.multiply(parse(quantity), Decimal(units_in_one))
    if not -MOST <= value <= MOST:
        shown = str(quantity if isinstance(quantity, str) else value)[:_SHORT]
        raise TooLarge(f"seen {shown}, want {MOST if value > 0 else -MOST} or {'less' if value > 0 else 'more'}")
    return int(value) if value == value.to_integral_value() else value


_cached_units = functools.lru_cache(maxsize=4096)(_exact_units)
"""Objects repeat a few texts, and a lookup costs a fraction of parsing."""


def exact_resource_units(resource: str, quantity: Quantity) -> int | Decimal:
    """Convert like `resource_units` without rounding, for terms of a sum: Kubernetes adds first and rounds once."""
    convert = _cached_units if type(quantity) is str and len(quantity) <= _SHORT else _exact_units
    return convert(quantity, 1000 if resource == "cpu" else 1)


def resource_units(resource: str, quantity: Quantity) -> int:
    """Convert a quantity, rounded up, to this project's unit of the resource.

    That is milli-cores for native cpu, and base units for others: bytes, and milli-cores for mid-cpu and batch-cpu.
    Raises InvalidQuantity.
    """
    units = exact_resource_units(resource, quantity)
    return units if type(units) is int else round_up(Decimal(units))


def cpu_millis(quantity: Quantity) -> int:
    """Convert a native `cpu` quantity to milli-cores, rounded up. Raises InvalidQuantity."""
    return resource_units("cpu", quantity)


UNKNOWN: Final = MOST
"""What an amount of a pod counts as that cannot be read, or is more than Kubernetes counts: it costs that pod alone."""


def known(amounts: dict[str, int]) -> dict[str, int]:
    """Return the amounts of a pod. Raises InvalidQuantity where one that decisions need is unknown."""
    for name, amount in amounts.items():
        if amount == UNKNOWN and name in DECISIVE:
            raise InvalidQuantity(f"{name}: what the pod states cannot be read, or is more than {UNKNOWN}")
    return amounts


def amounts(wire: Mapping[str, Quantity] | None) -> dict[str, int]:
    """Convert a resource list of a pod like `units`; an amount that cannot be read is UNKNOWN."""
    amounts = {}
    for name, value in (wire or {}).items():
        try:
            amounts[name] = resource_units(name, value)
        except InvalidQuantity:
            amounts[name] = UNKNOWN
    return amounts


def exact(wire: Mapping[str, Quantity] | None) -> Exact:
    """Convert like `amounts` without rounding."""
    exact: Exact = {}
    for name, value in (wire or {}).items():
        try:
            exact[name] = exact_resource_units(name, value)
        except InvalidQuantity:
            exact[name] = UNKNOWN
    return exact


def rounded(total: Exact) -> dict[str, int]:
    """Round a sum up; one that is more than Kubernetes counts is UNKNOWN."""
    return {
        name: min(value if type(value) is int else round_up(Decimal(value)), UNKNOWN) for name, value in total.items()
    }


def format_cpu_millis(cpu_millis: int) -> str:
    """Format native cpu: 1450 -> "1450m", 2000 -> "2"."""
    return f"{cpu_millis}m" if cpu_millis % 1000 else str(cpu_millis // 1000)


def format_units(resource: str, units: int) -> str:
    """Format an amount in the unit of `resource_units`."""
    return format_cpu_millis(units) if resource == "cpu" else str(units)

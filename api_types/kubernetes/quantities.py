"""Convert Kubernetes quantities to exact integers: CPU in milli-cores, memory in bytes, both rounded up.

Grammar (Kubernetes API conventions): a signed decimal number, then nothing, a decimal suffix (n u m k M G T P E), a
binary suffix (Ki Mi Gi Ti Pi Ei) or a decimal exponent (e3, E-2). Arithmetic is exact (`Decimal`, `int`); a float
never appears.
"""

from __future__ import annotations

import functools
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

Quantity = str | int | float | Decimal
"""Types that the wire may have where a quantity is expected."""

_NUMBER: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_SUFFIX: Final = r"[numkMGTPE]|[KMGTPE]i"
_EXPONENT: Final = r"[+-]?[0-9]{1,3}"
_GRAMMAR: Final = re.compile(f"(?P<number>{_NUMBER})(?:(?P<suffix>{_SUFFIX})|[eE](?P<exponent>{_EXPONENT}))?")
PATTERN: Final = f"^{_NUMBER}({_SUFFIX}|[eE]{_EXPONENT})?$".replace("(?:", "(")
"""The grammar as a regular expression for schemas."""
_SCALE: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
MOST: Final = 2**63 - 1
"""Largest amount that Kubernetes counts, in any unit. The grammar allows larger ones: an exponent has three digits."""


_MOST_CHARACTERS: Final = 64
"""Longest text of a quantity: twice the digits of the largest exact amount. Texts are cached, so each is bounded."""


class InvalidQuantity(ValueError):
    """Text that is not a Kubernetes quantity."""


def _parse_text(text: str) -> Decimal:
    if len(text) > _MOST_CHARACTERS:
        raise InvalidQuantity(
            f"{text[:_MOST_CHARACTERS]!r}... has {len(text)} characters, want a quantity of at most {_MOST_CHARACTERS}"
        )
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise InvalidQuantity(f"{text!r} is not a quantity, want a number with a suffix like 500m, 1.5, 2k or 4Gi")
    number = Decimal(match["number"])
    if match["suffix"]:
        return number * _SCALE[match["suffix"]]
    return number.scaleb(int(match["exponent"])) if match["exponent"] else number


def parse(quantity: Quantity) -> Decimal:
    """Return the exact value of a quantity in its base unit (cores, bytes). Raises InvalidQuantity."""
    if isinstance(quantity, bool) or not isinstance(quantity, (str, int, float, Decimal)):
        raise InvalidQuantity(f"{quantity!r} is not a quantity, want text or a number")
    if isinstance(quantity, str):
        return _parse_text(quantity)
    value = Decimal(str(quantity)) if isinstance(quantity, float) else Decimal(quantity)
    if not value.is_finite():
        raise InvalidQuantity(f"{quantity!r} is not a quantity, want a finite number")
    return value


def round_up(value: Decimal) -> int:
    """Round away from zero to an integer, as Kubernetes does when it reads a quantity in a coarser unit."""
    return int(value.to_integral_value(ROUND_CEILING if value >= 0 else ROUND_FLOOR))


@functools.lru_cache(maxsize=4096)
def _units_of_text(text: str, units_in_one: int) -> int:
    """Cache conversions: objects repeat a few texts, and a lookup costs a fraction of parsing."""
    return round_up(_parse_text(text) * units_in_one)


@functools.lru_cache(maxsize=4096)
def _exact_units_of_text(text: str, units_in_one: int) -> int | Decimal:
    value = _parse_text(text) * units_in_one
    whole = round_up(value)
    return whole if whole == value else value


def cpu_millis(quantity: Quantity) -> int:
    """Convert a native `cpu` quantity to milli-cores, rounded up."""
    return _units_of_text(quantity, 1000) if type(quantity) is str else round_up(parse(quantity) * 1000)


def whole_units(quantity: Quantity) -> int:
    """Convert a quantity to base units (bytes; milli-cores for mid-cpu and batch-cpu), rounded up."""
    return _units_of_text(quantity, 1) if type(quantity) is str else round_up(parse(quantity))


def resource_units(resource: str, quantity: Quantity) -> int:
    """Convert a quantity to this project's unit of the resource: native cpu in milli-cores, others in base units."""
    return cpu_millis(quantity) if resource == "cpu" else whole_units(quantity)


def exact_resource_units(resource: str, quantity: Quantity) -> int | Decimal:
    """Convert like `resource_units` without rounding, for terms of a sum: Kubernetes adds first and rounds once."""
    units_in_one = 1000 if resource == "cpu" else 1
    if type(quantity) is str:
        return _exact_units_of_text(quantity, units_in_one)
    return parse(quantity) * units_in_one


def format_cpu_millis(cpu_millis: int) -> str:
    """Format native cpu: 1450 -> "1450m", 2000 -> "2"."""
    return f"{cpu_millis}m" if cpu_millis % 1000 else str(cpu_millis // 1000)


def format_bytes(memory_bytes: int) -> str:
    """Format a byte count as the plain integer, which is exact without rounding."""
    return str(memory_bytes)


def format_units(resource: str, units: int) -> str:
    """Format an amount in the unit of `resource_units`."""
    return format_cpu_millis(units) if resource == "cpu" else str(units)

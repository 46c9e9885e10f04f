"""Define how conformance cases call the product: one entry for each function, from one module for each component.

A module has `ADAPTERS` (input -> value, of which the keys that `expected` states are compared), `CHECKS` ((input,
expected) -> None or the difference) for cases with a comparison of their own, and `DIFFERENT_ON_PURPOSE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """Cases that differ on purpose: the function, the predicate of its cases by their `input`, and the reason."""

    function: str
    applies: Callable[[Mapping[str, Any]], bool]
    reason: str


Adapter = Callable[[Any], Any]
Check = Callable[[Any, Any], str | None]


def stated(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a result that a case states. An error always counts, by its presence: texts are our own."""
    found = {key: actual[key] for key in expected if key in actual}
    error = actual.get("error")
    if not error:
        return found
    return found | {"error": expected.get("error") or error}


def _numbers_differ(expected: float, actual: float, absolute: float, relative: float) -> bool:
    return not math.isclose(expected, actual, rel_tol=relative, abs_tol=absolute)


def differs(expected: Any, actual: Any, absolute: float, relative: float) -> bool:
    """Return whether two JSON values differ, numbers by more than the tolerances."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is not actual
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        return _numbers_differ(expected, actual, absolute, relative)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() != actual.keys() or any(
            differs(expected[key], actual[key], absolute, relative) for key in expected
        )
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return len(expected) != len(actual) or any(
            differs(*pair, absolute, relative) for pair in zip(expected, actual, strict=True)
        )
    return bool(expected != actual)

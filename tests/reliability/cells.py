"""Cells of the matrix of faults: a proof, one under another fault, a gap, or a fault that cannot hit a component."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple


class Component(enum.StrEnum):
    """A part of the suite that a fault can hit."""

    AGENT = "koordlet"
    MANAGER = "koord-manager"
    EXTENDER = "scheduler plugin"
    LOAD_WATCHER = "load watcher"
    WEBHOOK = "admission webhook"


class Timeless(enum.StrEnum):
    """Why a proof has no time limit of the recovery."""

    UNINTERRUPTED = "no recovery needed"
    AT_ONCE = "at once"
    """With the next call, round or start."""
    NOT_TIMED = "not timed"
    """The recovery takes time, and no test asserts a limit of it for the fault as it is."""


class Proof(NamedTuple):
    """What must hold under a fault, and the tests that fail where it does not."""

    holds: str
    tests: tuple[str, ...]
    """`file.py` or `file.py::test`."""
    within: int | Timeless
    """Time limit of the recovery in seconds that a test asserts, or why there is none."""
    took_seconds: float | None = None
    """Time that the recovery took in a run of the test; None where it prints none."""


class CoveredBy(NamedTuple):
    """A fault that is another one to the component, under which it has a proof."""

    fault: str
    reason: str


class NotTested(NamedTuple):
    """A fault that can hit the component, and no test of it."""

    reason: str


class NotConcerned(NamedTuple):
    """A fault that cannot hit the component."""

    reason: str


Cell = Proof | CoveredBy | NotTested | NotConcerned


class Fault(NamedTuple):
    """One kind of fault, with a cell for each component."""

    name: str
    what: str
    """What happens to the component."""
    cells: Mapping[Component, Cell]


def proof(holds: str, *tests: str, within: int | Timeless, took_seconds: float | None = None) -> Proof:
    """Return a cell with its tests."""
    return Proof(holds, tests, within, took_seconds)

"""Protocol of a predictor in a package of its own: what it is given, and what it returns.

An entry point of the group `koordlet.predictors` names a class without parameters, or another callable that returns an
object with the methods of `PackagePredictor`. A package needs to import nothing from here. The names below may get more
fields; none is removed or changes its meaning within a major version.

CPU is in cores, memory in bytes. Arrays are copies that only this call gets, and read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

GROUP: Final = "koordlet.predictors"
"""Entry-point group: name of a predictor -> class without parameters, or another callable that returns one."""
RING_SLOTS: Final = 288
"""Slots of the day ring: 24 hours of 5 minutes each."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Decayed statistics of `count` series, one row for each."""

    mean: FloatArray
    """Shape (count,)."""
    stdev: FloatArray
    """Population standard deviation; shape (count,)."""
    newest: FloatArray
    """Newest sample, the p90 of 30 s; NaN without one; shape (count,)."""
    ring: FloatArray
    """Largest sample of each 5 minutes; shape (count, 288), column 0 is the present slot; NaN without a sample."""
    percentiles: Callable[..., FloatArray]
    """`percentiles(50, 99)` returns those percentiles (0 to 100), shape (count, 2); its time is the caller's."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Prod pods of a node now, for one resource."""

    resource: str
    """`cpu` or `memory`."""
    now_seconds: float
    """Unix time."""
    horizon_seconds: float
    """Time for which the peak has to be high enough."""
    violation_target_percent: float
    """Share of the horizons in which usage may exceed the peak."""
    capacity: float
    """Capacity of the node; infinite while it is not known."""
    pod_uids: tuple[str, ...]
    """UIDs of the warm Prod pods, those with enough recorded history; row i of `pods` belongs to UID i."""
    pods: Series
    pod_requests: FloatArray
    """Request of each warm pod; shape (pods,)."""
    pod_limits: FloatArray
    """CPU limit of each warm pod, infinite without one and for memory; shape (pods,)."""
    unreserved_system: Series
    """S, the system usage beyond the node's reservation: one row."""
    cold_requests: float
    """C, what all cold Prod pods are charged. The agent adds it to the peak."""


class PackagePredictor(Protocol):
    """One predictor. Methods are called from the agent's event loop, each for one resource after the other."""

    def predict(self, load: Load) -> float | str:
        """Return the peak of the warm pods and S, or a text: the reason for which there is no prediction.

        The agent raises the peak by the safety margin, adds `load.cold_requests` and limits it to the capacity.
        """
        ...


class Observes(Protocol):
    """Optional: a predictor that learns."""

    def observe(self, load: Load) -> None:
        """Learn from the load; called every 30 s while the predictor is in force or evaluated."""
        ...


class HasState(Protocol):
    """Optional: a predictor with a state that survives a restart of the agent."""

    def save(self) -> bytes:
        """Return the state, at most 64 KiB; called every few minutes."""
        ...

    def restore(self, state: bytes) -> None:
        """Load a state that `save` of this or another version returned; raise ValueError to refuse it.

        Called once, before any other method. After a refused state the agent builds the predictor again.
        """
        ...

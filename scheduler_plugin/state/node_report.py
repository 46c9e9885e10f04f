"""Pack one NodeMetric into vectors over the estimator's resources, to fit 15,000 nodes in memory.

A vector as a tuple of integers takes 120 bytes, and a node reports one per pod and one per statistic and window. In an
array it takes 8 bytes a number.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from api_types.node_metric import mid_report
from scheduler_plugin.state.vectors import Vector

K = TypeVar("K", bound=Hashable)


class VectorTable(Mapping[K, Vector]):
    """Read-only mapping to vectors of one length, each entry an integer of 64 bits."""

    __slots__ = ("_numbers", "_positions", "_width")

    def __init__(self, positions: Mapping[K, int], numbers: array[int], width: int) -> None:
        self._positions = positions
        self._numbers = numbers
        self._width = width

    def __getitem__(self, key: K) -> Vector:
        """Return the vector of a key."""
        at = self._positions[key] * self._width
        return tuple(self._numbers[at : at + self._width])

    def find(self, key: K) -> Vector | None:
        """Return the vector of a key, or None; three times as fast as `get`."""
        position = self._positions.get(key)
        if position is None:
            return None
        at = position * self._width
        return tuple(self._numbers[at : at + self._width])

    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys in the order of the input."""
        return iter(self._positions)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._positions)

    def own_key(self, key: K) -> K:
        """Return this table's own object for a key, so that the caller can drop its equal copy."""
        position = self._positions.get(key)
        return key if position is None else next(itertools.islice(self._positions, position, None))


def table(vectors: Mapping[K, Sequence[int]], width: int) -> VectorTable[K]:
    """Pack vectors of `width` numbers."""
    positions = dict(zip(vectors, range(len(vectors)), strict=True))
    return VectorTable(positions, packed(vectors), width)


def packed(vectors: Mapping[K, Sequence[int]]) -> array[int]:
    """Put the numbers of all vectors into one array."""
    return array("q", [*itertools.chain.from_iterable(vectors.values())])


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Report of a node's agent."""

    update_time: float | None
    """Time of the sample, seconds since the epoch; None if the report has none."""
    interval_seconds: float
    node_usage: Vector | None
    """None only if the report has no usable node usage at all."""
    system_usage: Vector
    predicted_usage: Vector | None
    """Predicted peak of all pods and the system together; None without a prediction."""
    aggregated: Mapping[tuple[str, int], Vector]
    """Usage by (statistic, window in nanoseconds); window 0 is the longest one reported."""
    pods: VectorTable[str]
    """By pod key: usage, and a last number of 1 if the report lists the pod as Prod, else 0."""
    mid_policy: mid_report.MidPolicy | None
    """Policy by which the manager calculates Mid on this node; None without one."""
    mid_report: mid_report.MidReport
    """Inputs of the Mid formula."""

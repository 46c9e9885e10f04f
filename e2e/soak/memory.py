"""Resident memory of the suite's processes over time, for each process life, and its growth. No I/O.

A manager that becomes the leader takes memory for its new work, which is no growth: a life ends there and another one
begins.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import NamedTuple

WARM_SECONDS = 600.0
"""Length of the warm-up, in which a process fills its caches; growth counts after it."""
MOST_GROWTH = 0.05
"""Allowed growth over the longest life, as a share of the memory at its begin."""
SHORTEST_LIFE_SECONDS = 900.0
"""Length of a life whose growth is computed."""


class Sample(NamedTuple):
    """Memory of one process at one time."""

    name: str
    pid: int
    at_seconds: float
    mebibytes: float
    leads: bool = False


class Row(NamedTuple):
    """Result of one component."""

    name: str
    processes: int
    longest_life_seconds: float
    """Of one process, as a leader or as none."""
    first_mebibytes: float | None
    """Median of the first fifth of the longest life after its warm-up; None where that was too short."""
    last_mebibytes: float | None
    """Median of its last fifth."""
    most_mebibytes: float

    @property
    def growth(self) -> float | None:
        """Return the growth as a share of the first value."""
        if self.first_mebibytes is None or self.last_mebibytes is None:
            return None
        return self.last_mebibytes / self.first_mebibytes - 1


def restarts(samples: Iterable[Sample], kills: Mapping[str, int]) -> dict[str, int]:
    """Return how often each component began again without having been killed."""
    found = {row.name: row.processes - 1 - kills.get(row.name, 0) for row in rows(samples)}
    return {name: count for name, count in found.items() if count > 0}


def rows(samples: Iterable[Sample]) -> list[Row]:
    """Return one row for each component, sorted by name."""
    lives: dict[str, dict[tuple[int, bool], list[Sample]]] = {}
    for sample in samples:
        lives.setdefault(sample.name, {}).setdefault((sample.pid, sample.leads), []).append(sample)
    return [_row(name, of_part) for name, of_part in sorted(lives.items())]


def _row(name: str, lives: dict[tuple[int, bool], list[Sample]]) -> Row:
    longest = max(lives.values(), key=_seconds)
    warm = [each.mebibytes for each in longest if each.at_seconds >= longest[0].at_seconds + WARM_SECONDS]
    fifth = len(warm) // 5
    is_long = fifth > 0 and _seconds(longest) >= SHORTEST_LIFE_SECONDS
    return Row(
        name,
        len({pid for pid, _ in lives}),
        _seconds(longest),
        statistics.median(warm[:fifth]) if is_long else None,
        statistics.median(warm[-fifth:]) if is_long else None,
        max(each.mebibytes for life in lives.values() for each in life),
    )


def _seconds(life: list[Sample]) -> float:
    return life[-1].at_seconds - life[0].at_seconds

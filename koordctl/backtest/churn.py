"""Cut the pods of a machine into successors of one another. The usage stays, only the identity changes. No I/O."""

from __future__ import annotations

import bisect
import enum
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from koordctl.backtest.node_history import SeriesStay

DLRM: Final = "dlrm"
_SPREAD: Final = 0.2
_DLRM_SHARES: Final = (0.0, 0.5, 0.75, 1.0)
_DLRM_LIVES: Final = np.log([300, 2.3 * 3600, 19 * 3600, 31 * 86_400])
"""Lifetimes of the pods that ended in Alibaba's trace `cluster-trace-gpu-v2025` (16,576 pods of 31 days): half and
three quarters of them as published there, straight in the logarithm between; the shortest is assumed."""


class ChurnMode(enum.StrEnum):
    """When pods are replaced."""

    ROLLING = "rolling"
    """Each at its own time; lifetimes are exponentially distributed."""
    AT_ONCE = "at-once"
    """All pods of a machine together; lifetimes differ by at most a fifth."""


@dataclass(frozen=True)
class Churn:
    """Lifetimes of the pods and machines of a trace."""

    pod_seconds: int | Literal["dlrm"] | None = None
    """Mean lifetime of a pod, or those of Alibaba's trace; None: pods are not cut."""
    mode: ChurnMode = ChurnMode.ROLLING
    node_seconds: int | None = None
    """Lifetime of a machine, within a fifth; None: it stays."""

    def __post_init__(self) -> None:
        """Raise ValueError for a mode that the lifetimes do not have."""
        if self.pod_seconds == DLRM and self.mode is ChurnMode.AT_ONCE:
            raise ValueError(f"--churn {DLRM} --churn-mode {self.mode}: want a duration, such as --churn 4h")

    def replacements(self, steps: int, step_seconds: int, rng: random.Random) -> list[int]:
        """Return the steps at which another machine takes the place. Machines begin at different ages."""
        if self.node_seconds is None:
            return []
        mean = self.node_seconds / step_seconds
        return _ends(lambda: _about(mean, rng), -rng.random() * mean, steps)

    def cut(self, stays: Sequence[SeriesStay], steps: int, step_seconds: int, rng: random.Random) -> list[SeriesStay]:
        """Return the pods into which each stay is divided, in the order of the stays."""
        if self.pod_seconds is None:
            return list(stays)
        mean = 0.0 if self.pod_seconds == DLRM else self.pod_seconds / step_seconds
        if self.mode is ChurnMode.AT_ONCE:
            return cut_at(stays, _ends(lambda: _about(mean, rng), 0, steps))

        def life() -> float:
            return rng.expovariate(1 / mean) if mean else _dlrm(rng.random()) / step_seconds

        return [pod for stay in stays for pod in cut_at([stay], _ends(life, stay.start, stay.end))]


def cut_at(stays: Sequence[SeriesStay], ends: Sequence[int]) -> list[SeriesStay]:
    """Return the stays, each divided at the ascending steps that are within it."""
    pods = []
    for stay in stays:
        inside = ends[bisect.bisect_right(ends, stay.start) : bisect.bisect_left(ends, stay.end)]
        for start, end in zip((stay.start, *inside), (*inside, stay.end), strict=True):
            pods.append(replace(stay, start=start, end=end))
    return pods


def _ends(life: Callable[[], float], start: float, end: int) -> list[int]:
    """Return the steps at which one life after another ends, from `start` to `end`; none lasts less than a step."""
    ends = []
    while (start := start + max(life(), 1.0)) < end:
        ends.append(math.floor(start))
    return [step for step in ends if step > 0]


def _about(mean: float, rng: random.Random) -> float:
    return mean * rng.uniform(1 - _SPREAD, 1 + _SPREAD)


def _dlrm(share: float) -> float:
    return math.exp(float(np.interp(share, _DLRM_SHARES, _DLRM_LIVES)))

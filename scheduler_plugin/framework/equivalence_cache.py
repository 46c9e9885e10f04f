"""Answers for whole classes of pods, kept for every row and brought up to date for the rows that changed.

A policy's answer about a node changes when the node's row does, or when its report grows too old. Pods of one workload
ask the same question, so most calls find all but a handful of rows answered.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

import numpy.typing as npt

from scheduler_plugin.state.node_columns import Floats, RowChanges, Rows

PodClass = TypeVar("PodClass", bound=Hashable)

_KEPT_CLASSES: Final = 128  # of at most 8 bytes a node; the class not asked for longest makes room

Answers = npt.NDArray[Any]


class _Kept:
    __slots__ = ("answers", "valid_until", "version")

    def __init__(self, answers: Answers, version: int, valid_until: float) -> None:
        self.answers = answers
        self.version = version
        self.valid_until = valid_until


class EquivalenceCache(Generic[PodClass]):
    """One kind of answer. `compute(pod_class, rows, now)` gives it for some rows, `slice(None)` meaning all."""

    def __init__(self, compute: Callable[[PodClass, Rows | slice, float], Answers]) -> None:
        self._compute = compute
        self._by_class: collections.OrderedDict[PodClass, _Kept] = collections.OrderedDict()

    def of(self, pod_class: PodClass, changes: RowChanges, expires_at: Floats, now: float) -> Answers:
        """Answer for every row; `expires_at` holds the moment each row's answer changes by itself."""
        kept = self._by_class.get(pod_class)
        if kept is None or now >= kept.valid_until or len(kept.answers) != len(expires_at):
            answers = self._compute(pod_class, slice(None), now)
            kept = self._by_class[pod_class] = _Kept(answers, changes.version, _first_after(expires_at, now))
            if len(self._by_class) > _KEPT_CLASSES:
                self._by_class.popitem(last=False)
        elif kept.version != changes.version:
            changed = changes.changed_since(kept.version)
            kept.answers[changed] = self._compute(pod_class, changed, now)
            kept.valid_until = min(kept.valid_until, _first_after(expires_at[changed], now))
            kept.version = changes.version
        self._by_class.move_to_end(pod_class)
        return kept.answers


def _first_after(moments: Floats, now: float) -> float:
    later = moments[moments > now]
    return float(later.min()) if later.size else math.inf

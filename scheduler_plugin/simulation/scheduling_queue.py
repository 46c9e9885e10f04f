"""Model of kube-scheduler's queue of pods that no node accepted (v1.34). Pure.

    waits for     a departure of a pod, where requests do not fit; any pod that starts or leaves, where an extender
                  rejected a node; a change of the pod itself, like the annotation by which the extender wakes it
    or for        300 s, checked every 30 s
    then waits    until its backoff is over: initial * 2 ** (attempts - 1) seconds after the attempt, bounded

Pods that are due at the same moment are tried in the order of their priority, then of their arrival.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from scheduler_plugin.config import kube_scheduler

_LONGEST_SECONDS: Final = 300.0
_FLUSH_SECONDS: Final = 30.0


class QueueBackoff(NamedTuple):
    """Shortest and longest time between two attempts of a pod. The defaults are those of kube-scheduler."""

    initial_seconds: float = 1.0
    longest_seconds: float = 10.0


def read_backoff(document: Mapping[str, Any]) -> QueueBackoff:
    """Read the backoff of a KubeSchedulerConfiguration; any other document gets the defaults."""
    if not kube_scheduler.is_configuration(document):
        return QueueBackoff()
    default = QueueBackoff()
    initial = float(document.get("podInitialBackoffSeconds") or default.initial_seconds)
    return QueueBackoff(initial, max(float(document.get("podMaxBackoffSeconds") or default.longest_seconds), initial))


class Due(NamedTuple):
    """A pod to try again, and the time."""

    pod: int
    at: float


class _WaitingPod(NamedTuple):
    ready_at: float
    """End of the backoff."""
    flush_at: float
    by_extender: bool


class SchedulingQueue:
    """Pods that wait for an event, by their index. Every pod that is due leaves the queue."""

    def __init__(self, backoff: QueueBackoff = QueueBackoff()) -> None:  # noqa: B008  # immutable
        self._backoff = backoff
        self._waiting: dict[int, _WaitingPod] = {}

    def __len__(self) -> int:
        """Return the number of pods that wait for an event."""
        return len(self._waiting)

    def refused(self, pod: int, attempt: int, at: float, *, by_extender: bool) -> float:
        """Add a pod after its attempt number `attempt` (1, 2 ...); return when it is tried without any event."""
        pause = min(self._backoff.initial_seconds * 2.0 ** min(attempt - 1, 32), self._backoff.longest_seconds)
        flush_at = math.ceil((at + _LONGEST_SECONDS) / _FLUSH_SECONDS) * _FLUSH_SECONDS
        self._waiting[pod] = _WaitingPod(at + pause, flush_at, by_extender)
        return flush_at

    def pod_started(self, at: float) -> Iterator[Due]:
        """Yield the pods that the start of a pod wakes."""
        yield from self._wake([pod for pod, waiting in self._waiting.items() if waiting.by_extender], at)

    def pod_left(self, at: float) -> Iterator[Due]:
        """Yield the pods that the departure of a pod wakes: all."""
        yield from self._wake(list(self._waiting), at)

    def changed(self, pod: int, at: float) -> Iterator[Due]:
        """Yield a pod whose own object changed, if it waits."""
        if pod in self._waiting:
            yield from self._wake([pod], at)

    def flushed(self, pod: int, at: float) -> bool:
        """Return whether a pod has waited until its time without events, and remove it then."""
        waiting = self._waiting.get(pod)
        if waiting is None or waiting.flush_at > at:
            return False
        del self._waiting[pod]
        return True

    def _wake(self, pods: list[int], at: float) -> Iterator[Due]:
        for pod in pods:
            yield Due(pod, max(at, self._waiting.pop(pod).ready_at))

"""Remember since when load alone refuses a Prod pod everywhere: after a bound, the pod is placed all the same. Pure.

An autoscaler reads requests: a pod that fits by its requests gets no new node, however busy the nodes are. Without a
bound it waits for as long as all nodes are busy. From the bound on, the limits order the nodes for this pod and reject
none, as in `mode: soft`, until it is bound or deleted.

The wait begins with the first attempt that only LoadAwareScheduling refused, on every named node, and begins again
after an attempt with another outcome. A pod that kube-scheduler names no node for makes no call, which changes nothing
for 15 minutes. Then its wait ends: the watch may show the deletion of a pod before its last attempt.

A wait takes a hundred bytes, of pods of which kube-scheduler holds kilobytes: their number has no limit of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from scheduler_plugin.state.pod_info import PodInfo

_TRIED_SECONDS: Final = 900.0
"""kube-scheduler tries a pod again after five minutes, and waits up to ten for the volumes of one that passed."""


class _Wait(NamedTuple):
    """Begin of a wait, and the last attempt; monotonic seconds."""

    since: float
    tried_at: float


class LoadWaits:
    """Waits by pod UID, and the pods beyond the bound; times are monotonic seconds. Without a bound nothing is kept."""

    def __init__(self, bound_seconds: float | None) -> None:
        self._bound_seconds = bound_seconds
        self._waits: dict[str, _Wait] = {}
        """In the order of the last attempt."""
        self.placed = 0
        """Number of pods that passed filter beyond the bound, since the start."""

    def __len__(self) -> int:
        """Return the number of waiting pods."""
        return len(self._waits)

    def refused(self, pod: PodInfo, monotonic: float) -> None:
        """Begin the wait of a pod, unless it has begun."""
        if self._bound_seconds is not None:
            before = self._waits.pop(pod.uid, None)
            self._waits[pod.uid] = _Wait(before.since if before else monotonic, monotonic)

    def passed(self, pod: PodInfo, monotonic: float) -> None:
        """Follow an attempt for which a node passed; the wait goes on where it is over, as the attempt may fail."""
        if pod.waited_seconds and pod.uid in self._waits:
            self.placed += 1
            self.refused(pod, monotonic)
        else:
            self.end(pod.uid)

    def softened(self, pod: PodInfo, monotonic: float) -> PodInfo:
        """Return a pod with its wait, if that is over."""
        wait = self._waits.get(pod.uid)
        if wait is None or self._bound_seconds is None or monotonic - wait.since < self._bound_seconds:
            return pod
        return msgspec.structs.replace(pod, waited_seconds=max(monotonic - wait.since, 1.0))

    def end(self, uid: str) -> None:
        """Drop a pod: it was bound or deleted, or something else refused it."""
        self._waits.pop(uid, None)

    def expire(self, monotonic: float) -> None:
        """Drop the pods that are no longer tried."""
        while self._waits and monotonic - next(iter(self._waits.values())).tried_at > _TRIED_SECONDS:
            self.end(next(iter(self._waits)))

"""Remember since when load alone refuses a Prod pod everywhere: after a bound, the pod is placed all the same. Pure.

An autoscaler reads requests: a pod that fits by its requests gets no new node, however busy the nodes are. Without a
bound it waits for as long as all nodes are busy. From the bound on, the limits order the nodes for this pod and reject
none, as in `mode: soft`, until it is bound or deleted.

The wait begins with the first attempt that only LoadAwareScheduling refused, on every named node, and begins again
after an attempt with another outcome. A pod that kube-scheduler names no node for makes no call, which changes nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_plugin.state.pod_info import PodInfo

MOST_PODS: Final = 16_384


class LoadWaits:
    """Waits by pod UID, and the pods beyond the bound; times are monotonic seconds. Without a bound nothing is kept."""

    def __init__(self, bound_seconds: float | None) -> None:
        self._bound_seconds = bound_seconds
        self._since: dict[str, float] = {}
        self.placed = 0
        """Number of pods that passed filter beyond the bound, since the start."""

    def __len__(self) -> int:
        """Return the number of waiting pods."""
        return len(self._since)

    def refused(self, uid: str, monotonic: float) -> None:
        """Begin the wait of a pod, unless it has begun; where MOST_PODS wait, it begins once one of them is placed."""
        if self._bound_seconds is not None and len(self._since) < MOST_PODS:
            self._since.setdefault(uid, monotonic)

    def softened(self, pod: PodInfo, monotonic: float) -> PodInfo:
        """Return a pod with its wait, if that is over."""
        since = self._since.get(pod.uid) if self._since else None
        if since is None or self._bound_seconds is None or monotonic - since < self._bound_seconds:
            return pod
        return msgspec.structs.replace(pod, waited_seconds=max(monotonic - since, 1.0))

    def end(self, uid: str) -> None:
        """Drop a pod: it was bound or deleted, or something else refused it."""
        self._since.pop(uid, None)

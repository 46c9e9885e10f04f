"""Remember since when load alone refuses a Prod pod everywhere: after a bound, the pod is placed all the same. Pure.

An autoscaler reads requests: a pod that fits by its requests gets no new node, however busy the nodes are. Without a
bound it waits for as long as all nodes are busy. From the bound on, the limits order the nodes for this pod and reject
none, as in `mode: soft`, until it is bound or deleted.

The wait begins with the first attempt that only LoadAwareScheduling refused, on every named node, and begins again
after an attempt with another outcome. A pod that kube-scheduler names no node for makes no call, which changes nothing
for 15 minutes. Then its wait ends: the watch may show the deletion of a pod before its last attempt.

Where too many wait, the newest of the namespace with the most make room, so that a tenant with thousands of pods keeps
no wait of another one from its begin.
"""

from __future__ import annotations

import collections
from typing import Final

import msgspec

from scheduler_plugin.state import mid_quotas
from scheduler_plugin.state.pod_info import PodInfo

MOST_PODS: Final = 16_384
_TRIED_SECONDS: Final = 900.0
"""kube-scheduler tries a pod again after five minutes, and waits up to ten for the volumes of one that passed."""


class _Wait:
    """Wait of one pod; times are monotonic seconds."""

    __slots__ = ("namespace", "since", "tried_at")

    def __init__(self, namespace: str, monotonic: float) -> None:
        self.namespace = namespace
        self.since = self.tried_at = monotonic


class LoadWaits:
    """Waits by pod UID, and the pods beyond the bound; times are monotonic seconds. Without a bound nothing is kept."""

    def __init__(self, bound_seconds: float | None) -> None:
        self._bound_seconds = bound_seconds
        self._waits: collections.OrderedDict[str, _Wait] = collections.OrderedDict()
        """In the order of the last attempt."""
        self._by_namespace: collections.Counter[str] = collections.Counter()
        self.placed = 0
        """Number of pods that passed filter beyond the bound, since the start."""

    def __len__(self) -> int:
        """Return the number of waiting pods."""
        return len(self._waits)

    def refused(self, pod: PodInfo, monotonic: float) -> None:
        """Begin the wait of a pod, unless it has begun."""
        if self._bound_seconds is None or self._is_tried(pod.uid, monotonic):
            return
        namespace = mid_quotas.pod_namespace(pod.key)
        if len(self._waits) < MOST_PODS or self._make_room(namespace, monotonic):
            self._waits[pod.uid] = _Wait(namespace, monotonic)
            self._by_namespace[namespace] += 1

    def passed(self, pod: PodInfo, monotonic: float) -> None:
        """Follow an attempt for which a node passed; the wait goes on where it is over, as the attempt may fail."""
        if pod.waited_seconds and self._is_tried(pod.uid, monotonic):
            self.placed += 1
        else:
            self.end(pod.uid)

    def softened(self, pod: PodInfo, monotonic: float) -> PodInfo:
        """Return a pod with its wait, if that is over."""
        wait = self._waits.get(pod.uid) if self._waits else None
        if wait is None or self._bound_seconds is None or monotonic - wait.since < self._bound_seconds:
            return pod
        return msgspec.structs.replace(pod, waited_seconds=max(monotonic - wait.since, 1.0))

    def end(self, uid: str) -> None:
        """Drop a pod: it was bound or deleted, or something else refused it."""
        wait = self._waits.pop(uid, None)
        if wait is not None:
            self._by_namespace[wait.namespace] -= 1
            if not self._by_namespace[wait.namespace]:
                del self._by_namespace[wait.namespace]

    def expire(self, monotonic: float) -> None:
        """Drop the pods that are no longer tried."""
        while self._waits and monotonic - next(iter(self._waits.values())).tried_at > _TRIED_SECONDS:
            self.end(next(iter(self._waits)))

    def _is_tried(self, uid: str, monotonic: float) -> bool:
        """Record an attempt on a pod; return whether it waits."""
        wait = self._waits.get(uid)
        if wait is None:
            return False
        wait.tried_at = monotonic
        self._waits.move_to_end(uid)
        return True

    def _make_room(self, namespace: str, monotonic: float) -> bool:
        """Drop pods that make room for one of a namespace; return whether there are any."""
        self.expire(monotonic)
        if len(self._waits) < MOST_PODS:
            return True
        ((greediest, most),) = self._by_namespace.most_common(1)
        if most <= self._by_namespace[namespace] + 1:
            return False
        of_it = [uid for uid, wait in self._waits.items() if wait.namespace == greediest]
        self.end(max(reversed(of_it), key=lambda uid: self._waits[uid].since))
        return True

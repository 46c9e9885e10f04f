"""Remember the pods that no node passed for, and choose those to retry when a node would pass. Pure.

kube-scheduler retries a pod that an extender refused when a Pod, Node or volume changes, and after five minutes. The
end of a hot spot is a change of a NodeMetric, which wakes no pod; and where kube-scheduler samples the nodes, a cool
node may be among those that it did not name. Therefore the extender wakes pods itself:

    a named node passes again             the pod is woken at once
    a node that was not named passes      the pod is woken at once, then after 1, 2, 4 ... 60 s: kube-scheduler may have
                                          reasons of its own against that node, which are not known here

Pods are woken in the order of their first refusal, at most `per_second`, and never more than the nodes have room for: a
woken pod counts on a passing node, by its estimate, until kube-scheduler asks for it again.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scheduler_plugin.framework.cycle import SchedulingCycle
from scheduler_plugin.framework.interface import Pending
from scheduler_plugin.state.node_columns import Bools, Ints, NodeColumns, Rows
from scheduler_plugin.state.pod_info import PodInfo

MOST_PODS: Final = 4096
MOST_PER_SECOND: Final = 20.0
FULL_ROUND_SECONDS: Final = 5.0
"""Pods are chosen at least so often: reports expire, and the clock moves, without a change of any node."""
_MOST_PER_ROUND: Final = 256  # pods that one round compares with the nodes; the next round goes on behind them
_WOKEN_SECONDS: Final = 15.0
"""Time in which a woken pod is expected to be filtered again; after it the pod may be woken once more."""
_LONGEST_PAUSE_SECONDS: Final = 60.0


class Cause(enum.StrEnum):
    """Why a pod is woken."""

    COOLED = "cooled"
    """A node that was refused for it passes."""
    NOT_NAMED = "not-named"
    """A node that kube-scheduler did not name passes."""


class Retry(NamedTuple):
    """A pod to wake."""

    pod: PodInfo
    cause: Cause


class _Refused:
    """A pod that waits. `named` are the rows of its last refusal."""

    __slots__ = ("named", "pause_seconds", "paused_until", "pod", "woken_row", "woken_until")

    def __init__(self, pod: PodInfo) -> None:
        self.pod = pod
        self.named: Rows = np.zeros(0, dtype=np.intp)
        self.pause_seconds = 0.0
        self.paused_until = 0.0
        """Until then nodes that were not named do not wake the pod."""
        self.woken_until = 0.0
        self.woken_row = -1
        """Row on which the pod counts until `woken_until`."""


class RefusedPods:
    """Pods that wait for a node to pass. Times are monotonic seconds, but for `now`, which is compared with reports."""

    def __init__(
        self,
        cycle: SchedulingCycle,
        vectors: NodeColumns,
        resource_count: int,
        *,
        most_pods: int = MOST_PODS,
        per_second: float = MOST_PER_SECOND,
    ) -> None:
        self._cycle = cycle
        self._vectors = vectors
        self._resource_count = resource_count
        self._most_pods = most_pods
        self._per_second = per_second
        self._allowance = per_second
        self._allowed_at = 0.0
        self._pods: collections.OrderedDict[str, _Refused] = collections.OrderedDict()
        """By UID, in the order of the first refusal."""
        self._next = 0
        self.woken: dict[Cause, int] = dict.fromkeys(Cause, 0)
        """Number of chosen pods by cause, since the start."""
        self.refusals = 0
        """Number of refusals since the start."""
        self.failed = 0
        """Number of pods that could not be woken, since the start."""
        self.evicted = 0
        """Number of pods that were dropped because too many waited, since the start."""

    def __len__(self) -> int:
        """Return the number of waiting pods."""
        return len(self._pods)

    def refuse(self, pod: PodInfo, rows: Rows) -> None:
        """Remember a pod that none of `rows` passed for."""
        self.refusals += 1
        refused = self._pods.get(pod.uid)
        if refused is None:
            refused = self._pods[pod.uid] = _Refused(pod)
            if len(self._pods) > self._most_pods:
                self._pods.popitem(last=False)
                self.evicted += 1
        refused.pod, refused.named = pod, np.unique(rows)
        refused.woken_until = 0.0

    def forget(self, uid: str) -> None:
        """Drop a pod: a node passed for it, or it was bound or deleted."""
        self._pods.pop(uid, None)

    def choose(self, now: float, monotonic: float) -> Iterator[Retry | None]:
        """Yield each pod to wake, which counts on a passing node from then on, and None for one that goes on waiting.

        `now` is the time of reports.
        """
        self._refill(monotonic)
        rows = np.fromiter(self._vectors.rows.values(), dtype=np.intp, count=len(self._vectors.rows))
        if not self._pods or not len(rows):
            return
        hopeless: set[PodInfo] = set()
        """Pods for which no node passes, without their identity: what is woken in this round takes room, frees none."""
        for refused in self._round():
            if self._allowance < 1:
                return
            alike = msgspec.structs.replace(refused.pod, uid="", key="")
            if refused.woken_until > monotonic or alike in hopeless:
                continue
            passing = self._passing(refused.pod, rows, now, monotonic)
            if not len(passing):
                hopeless.add(alike)
                yield None
            elif (cause := self._wake(refused, passing, monotonic)) is not None:
                self._allowance -= 1
                self.woken[cause] += 1
                yield Retry(refused.pod, cause)

    def _round(self) -> list[_Refused]:
        """Return the pods of this round: the oldest ones, in turns where more wait than one round compares."""
        waiting = list(self._pods.values())
        if len(waiting) <= _MOST_PER_ROUND:
            return waiting
        start = self._next % len(waiting)
        self._next = start + _MOST_PER_ROUND
        return (waiting + waiting)[start : start + _MOST_PER_ROUND]

    def _passing(self, pod: PodInfo, rows: Rows, now: float, monotonic: float) -> Rows:
        codes = self._cycle.filter(pod, rows, now, self._woken_on(rows, monotonic))
        return rows if codes is None else rows[codes == 0]

    def _wake(self, refused: _Refused, passing: Rows, monotonic: float) -> Cause | None:
        """Count a pod on one of the passing nodes; None while the pod has to wait."""
        is_named: Bools = np.isin(passing, refused.named)
        cause = Cause.COOLED if is_named.any() else Cause.NOT_NAMED
        if cause is Cause.NOT_NAMED:
            if monotonic < refused.paused_until:
                return None
            refused.pause_seconds = min(max(2 * refused.pause_seconds, 1.0), _LONGEST_PAUSE_SECONDS)
            refused.paused_until = monotonic + refused.pause_seconds
        chosen = passing[is_named] if cause is Cause.COOLED else passing
        refused.woken_row = int(chosen[hash(refused.pod.uid) % len(chosen)])
        refused.woken_until = monotonic + _WOKEN_SECONDS
        return cause

    def _woken_on(self, rows: Rows, monotonic: float) -> Pending | None:
        """Return the estimates and Mid requests of the woken pods, by candidate; None without any."""
        woken = [each for each in self._pods.values() if each.woken_until > monotonic]
        if not woken:
            return None
        position: Mapping[int, int] = {row: index for index, row in enumerate(rows.tolist())}
        usage: Ints = np.zeros((self._resource_count, len(rows)), dtype=np.int64)
        mid: Ints = np.zeros((2, len(rows)), dtype=np.int64)
        for each in woken:
            at = position.get(each.woken_row)
            if at is None:
                continue
            if each.pod.estimate is not None:
                usage[:, at] += each.pod.estimate
            mid[:, at] += (each.pod.mid_cpu_millis, each.pod.mid_memory_bytes)
        return Pending(usage, mid)

    def _refill(self, monotonic: float) -> None:
        earned = (monotonic - self._allowed_at) * self._per_second
        self._allowance = min(self._allowance + max(earned, 0.0), self._per_second)
        self._allowed_at = monotonic

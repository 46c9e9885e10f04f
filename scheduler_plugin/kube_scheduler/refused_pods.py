"""Remember the pods that this plugin alone refused on some nodes; choose those to try again when one passes. Pure.

A pod is woken when a row that was refused for it passes. Then the plugin has to ask for it before it is woken once
more; if it does not within 15 s, other plugins refuse the pod by now, and their events wake it.

Pods are woken by priority; among equals the first of each namespace comes before the second of any, so that a tenant
with thousands of pods holds none of another one back. No more are woken than the nodes have room for: a woken pod
counts on a passing node, by its estimate, until the plugin asks for it again. In the same way it counts against the
quota of its namespace on Mid resources. A pod that waited for too long is woken too: from then on load limits reject no
node for it (`load_waits`). Where too many wait, the last ones of that order are dropped.
"""

from __future__ import annotations

import collections
import enum
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np

from api_types.kubernetes import priority_and_qos
from scheduler_plugin.framework.interface import Pending, SchedulingCycle, choose_candidates
from scheduler_plugin.kube_scheduler.row_set import NO_ROWS, RowSet
from scheduler_plugin.state import mid_quotas
from scheduler_plugin.state.load_waits import LoadWaits
from scheduler_plugin.state.node_columns import Ints, NodeColumns, Rows
from scheduler_plugin.state.pod_info import PodInfo

MOST_PODS: Final = 4096
_EXCESS_DIVISOR: Final = 16
"""Pods are dropped once so much more than the bound waits, many at a time: each time sorts all of them."""
_FULL_ROUND_SECONDS: Final = 5.0
"""Pods are chosen at least so often: reports expire, and the clock moves, without a change of any node."""
_FIRST: Final = 128
"""Pods that every round compares with the nodes: those of the highest priority."""
_MOST_IN_TURN: Final = 128
"""Further pods that a round compares; the next round goes on behind them."""
_TURNS_HALVED_SECONDS: Final = 60.0
_WOKEN_SECONDS: Final = 15.0
"""Time in which the plugin is expected to ask for a woken pod; after it the pod takes no room any more."""


class WakeCause(enum.StrEnum):
    """Why a pod is woken."""

    COOLED = "cooled"
    """A node that was refused for it passes."""
    WAITED = "waited"
    """Load alone refused the pod for too long, so that its limits are soft."""


class _RefusedPod:
    """A pod that waits. `named` are the rows of its last refusal."""

    __slots__ = ("compared_version", "is_due", "named", "pod", "woken_row", "woken_until")

    def __init__(self, pod: PodInfo) -> None:
        self.pod = pod
        self.named = NO_ROWS
        self.is_due = True
        """Whether a named row has changed since the pod was compared."""
        self.compared_version = -1
        """No row passes that has not changed since this version of the nodes; -1: any may."""
        self.woken_until = 0.0
        self.woken_row = -1
        """Row on which the pod counts until `woken_until`; -1: on none."""


@dataclass(eq=False)
class RefusedPods:
    """Pods that wait for a node to pass. Times are monotonic seconds, but for `now`, which is compared with reports."""

    cycle: SchedulingCycle
    vectors: NodeColumns
    resource_count: int
    waits: LoadWaits

    def __post_init__(self) -> None:
        self._pods: collections.OrderedDict[str, _RefusedPod] = collections.OrderedDict()
        """By UID, in the order of the first refusal."""
        self._turns: collections.Counter[str] = collections.Counter()
        """Pods that were woken lately, by namespace; half of them are forgotten each minute."""
        self._turns_halved_at = 0.0
        self._next = 0
        self._seen_version, self._full_round_at = 0, -math.inf
        self._everywhere: tuple[object, ...] = ()
        """What `_counts_everywhere` returned when pods were last compared."""
        self._seen: tuple[object, ...] = ()
        """Version of the nodes, what counts everywhere, and number of refusals, when the last round began."""
        self._round_at = 0.0
        self._left_to_compare = 0
        """Pods that no round has compared since the last change."""
        self.woken: dict[WakeCause, int] = dict.fromkeys(WakeCause, 0)
        """Number of chosen pods by cause, since the start."""
        self.refusals = 0
        """Number of refusals since the start."""
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
            refused = self._pods[pod.uid] = _RefusedPod(pod)
            if len(self._pods) > MOST_PODS + MOST_PODS // _EXCESS_DIVISOR:
                for excess in self._ordered(self._pods.values())[MOST_PODS:]:
                    del self._pods[excess.pod.uid]
                    self.evicted += 1
        refused.pod, refused.named, refused.is_due = pod, RowSet(rows), True
        refused.compared_version, refused.woken_until = -1, 0.0

    def _due(self, rows: Rows, monotonic: float) -> Collection[_RefusedPod]:
        """Return the pods to compare: those with a named row that has changed, or all."""
        vectors, everywhere = self.vectors, self._counts_everywhere()
        is_full = everywhere != self._everywhere or monotonic - self._full_round_at >= _FULL_ROUND_SECONDS
        changed = RowSet(rows[vectors.changed_at[rows] > self._seen_version])
        if is_full:
            self._everywhere, self._full_round_at = everywhere, monotonic
        for refused in self._pods.values():
            if is_full:
                refused.compared_version = -1
            refused.is_due = refused.is_due or is_full or refused.named.meets(changed)
        self._seen_version = vectors.version
        return [refused for refused in self._pods.values() if refused.is_due]

    def _counts_everywhere(self) -> tuple[object, ...]:
        """Return what rejects or passes on every node at once."""
        vectors = self.vectors
        return vectors.mid_quotas.version, vectors.mid_quotas.is_known, vectors.frozen, vectors.blindness

    def _ordered(self, pods: Collection[_RefusedPod]) -> list[_RefusedPod]:
        """Return pods by priority, and those of one priority by turns of their namespaces.

        What was woken of a namespace before counts as its first turns.
        """
        taken: collections.Counter[tuple[int, str]] = collections.Counter()
        order = []
        for refused in pods:
            namespace = mid_quotas.pod_namespace(refused.pod.key)
            group = refused.pod.priority, namespace
            order.append((-refused.pod.priority, taken[group] + self._turns[namespace], refused))
            taken[group] += 1
        order.sort(key=lambda entry: entry[:2])
        return [refused for *_, refused in order]

    def forget(self, uid: str) -> None:
        """Drop a pod: a node passed for it, or it was bound or deleted."""
        refused = self._pods.pop(uid, None)
        if refused is not None and refused.woken_row >= 0:
            self._full_round_at = -math.inf  # the room that it took is free, without a change of the node

    def update(self, pod: PodInfo) -> bool:
        """Follow the facts of a pod; return whether it waits and they differ, so that it has to be tried again."""
        refused = self._pods.get(pod.uid)
        if refused is None or refused.pod == msgspec.structs.replace(pod, waited_seconds=refused.pod.waited_seconds):
            return False
        refused.pod = pod
        return True

    def begins_round(self, monotonic: float) -> bool:
        """Return whether a round is due, which counts as begun then.

        It is due when a node, a pod, a quota or midEmergency has changed, until every pod was compared since; and when
        time has passed.
        """
        state = (self.vectors.version, self.refusals, self._counts_everywhere())
        if state != self._seen or monotonic - self._round_at >= _FULL_ROUND_SECONDS:
            self._left_to_compare = len(self._pods)
        elif self._left_to_compare <= 0:
            return False
        self._seen, self._round_at = state, monotonic
        return True

    def choose(self, now: float, monotonic: float) -> Iterator[PodInfo | None]:
        """Yield each pod to wake, which counts on a passing node from then on, and None for one that goes on waiting.

        `now` is the time of reports.
        """
        self._halve_turns(monotonic)
        rows = np.fromiter(self.vectors.rows.values(), dtype=np.intp, count=len(self.vectors.rows))
        if not self._pods or not len(rows):
            return
        comparison = _Comparison(rows, self._room(rows, monotonic), now, monotonic, set())
        order = self._ordered(self._due(rows, monotonic))
        first, others = order[:_FIRST], order[_FIRST:]
        for refused in first:
            yield from self._compare(refused, comparison)
        start = self._next % max(len(others), 1)
        in_turn = (others[start:] + others[:start])[:_MOST_IN_TURN]
        for refused in in_turn:
            yield from self._compare(refused, comparison)
        self._next = start + len(in_turn)
        self._left_to_compare = min(self._left_to_compare, len(others)) - len(in_turn)

    def _compare(self, refused: _RefusedPod, comparison: _Comparison) -> Iterator[PodInfo | None]:
        """Compare a pod with the nodes, unless the result is known; see `choose`."""
        if refused.woken_until > comparison.monotonic or self._pods.get(refused.pod.uid) is not refused:
            return  # it may be bound, or refused again, while the caller paused
        refused.pod = self.waits.softened(refused.pod, comparison.monotonic)
        changed = np.flatnonzero(self.vectors.changed_at[comparison.rows] > refused.compared_version)
        refused.is_due, refused.compared_version = False, self._seen_version
        named = changed[refused.named.contains(comparison.rows[changed])]
        rows = comparison.rows[named]
        pending = choose_candidates(comparison.room.pending(refused.pod), named)
        alike = _without_identity(refused.pod), rows.tobytes()
        if alike in comparison.hopeless:
            return
        codes = self.cycle.filter(refused.pod, rows, comparison.now, pending)
        passing = rows if codes is None else rows[codes == 0]
        if not len(passing):
            comparison.hopeless.add(alike)
            yield None
            return
        refused.woken_row = int(passing[hash(refused.pod.uid) % len(passing)])
        refused.woken_until = comparison.monotonic + _WOKEN_SECONDS
        comparison.room.count(refused)
        self._turns[mid_quotas.pod_namespace(refused.pod.key)] += 1
        self.woken[WakeCause.WAITED if refused.pod.waited_seconds else WakeCause.COOLED] += 1
        yield refused.pod

    def _room(self, rows: Rows, monotonic: float) -> _NodeRoom:
        """Return what the woken pods take; those whose time is over take nothing."""
        room = _NodeRoom(rows, self.resource_count)
        for refused in self._pods.values():
            if refused.woken_until > monotonic:
                room.count(refused)
            elif refused.woken_until:
                refused.named, refused.woken_until = NO_ROWS, 0.0  # other plugins refuse it by now
        return room

    def _halve_turns(self, monotonic: float) -> None:
        if monotonic - self._turns_halved_at >= _TURNS_HALVED_SECONDS:
            self._turns_halved_at = monotonic
            self._turns = collections.Counter({name: turns // 2 for name, turns in self._turns.items() if turns > 1})


class _Comparison(NamedTuple):
    """What the pods of one round are compared with."""

    rows: Rows
    room: _NodeRoom
    now: float
    monotonic: float
    hopeless: set[tuple[PodInfo, bytes]]
    """Pods for which no node passes, without their identity, and the nodes where not all count: what is woken in this
    round takes room, frees none."""


def _without_identity(pod: PodInfo) -> PodInfo:
    """Return a pod that is equal for pods with equal results; of the priority its class counts (MidGuard)."""
    class_of_it = priority_and_qos.class_of_priority(pod.priority)
    lowest = priority_and_qos.BANDS[class_of_it].lowest if class_of_it else 0
    waited = bool(pod.waited_seconds)
    return msgspec.structs.replace(pod, uid="", key=_quota_holder(pod), priority=lowest, waited_seconds=waited)


def _quota_holder(pod: PodInfo) -> str:
    """Return the namespace of a pod to which a quota applies; empty for others."""
    return mid_quotas.pod_namespace(pod.key) if pod.mid_cpu_millis or pod.mid_memory_bytes else ""


class _NodeRoom:
    """Estimates and Mid requests of the woken pods on `rows`, and Mid requests by namespace."""

    def __init__(self, rows: Rows, resource_count: int) -> None:
        self._position: Mapping[int, int] = {row: index for index, row in enumerate(rows.tolist())}
        self._usage: Ints = np.zeros((resource_count, len(rows)), dtype=np.int64)
        self._mid: Ints = np.zeros((2, len(rows)), dtype=np.int64)
        self._by_namespace: dict[str, Ints] = {}
        self._woken = 0

    def count(self, woken: _RefusedPod) -> None:
        """Add a woken pod; it counts in its namespace also where it takes no room on a node."""
        self._woken += 1
        mid = np.array([[woken.pod.mid_cpu_millis], [woken.pod.mid_memory_bytes]], dtype=np.int64)
        if namespace := _quota_holder(woken.pod):
            self._by_namespace[namespace] = self._by_namespace.get(namespace, 0) + mid
        at = self._position.get(woken.woken_row)
        if at is None:
            return
        if woken.pod.estimate is not None:
            self._usage[:, at] += woken.pod.estimate
        self._mid[:, [at]] += mid

    def pending(self, pod: PodInfo) -> Pending | None:
        """Return the sums by candidate for a pod; None without a woken pod."""
        if not self._woken:
            return None
        of_namespace = self._by_namespace.get(_quota_holder(pod))
        same = None if of_namespace is None else np.broadcast_to(of_namespace, self._mid.shape)
        return Pending(self._usage, self._mid, same)

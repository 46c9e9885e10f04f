"""What the nodes state about workloads and scores, in memory: taken in from reports, looked up for cold pods.

A statement counts once: by the time of the newest one of its node; and where the history was read from the cluster, by
the time as of which it was stored, so that a new leader does not count what the one before it had counted.
"""

from __future__ import annotations

import logging
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from api_types.kubernetes import times
from api_types.node_metric.workloads import MOST_HISTORY, MOST_WORKLOADS
from manager.cache.store import StoredReport
from manager.node_metric.workload_history import history
from manager.node_metric.workload_history.history import Entry, Statement, Usage
from manager.node_metric.workload_history.owners import Owners

log = logging.getLogger(__name__)

MOST_WORKLOADS_IN_ALL: Final = 50_000
CLOCK_TOLERANCE_SECONDS: Final = 60
"""A statement that is further in the future waits; the manager knows the apiserver's time."""
_SLACK: Final = 64
_LARGEST_REQUEST: Final = 1e15
_PACKED: Final = struct.Struct("<If12f")
"""An entry: with the key and their places in a dictionary 180 bytes."""


class StatedWorkload(Statement, frozen=True, gc=False, kw_only=True):
    """An entry of `status.workloads`."""

    namespace: str
    kind: str
    uid: str
    ordinal: int | None = None


class ColdPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An entry of `status.coldPods`."""

    pod: str
    namespace: str
    kind: str
    uid: str
    ordinal: int | None = None


def _pack(entry: Entry) -> bytes:
    usages = (msgspec.structs.astuple(usage) for usage in (entry.cpu, entry.memory))
    return _PACKED.pack(entry.time, entry.pod_hours, *(value for usage in usages for value in usage))


def _unpack(packed: bytes) -> Entry:
    time, pod_hours, *values = _PACKED.unpack(packed)
    return Entry(time, pod_hours, Usage(*values[:6]), Usage(*values[6:]))


@dataclass(slots=True)
class Namespace:
    """Entries of a namespace, packed, by key."""

    packed: dict[int, bytes] = field(default_factory=dict)
    read_seconds: int = 0
    """Time as of which the entries were stored that were read; 0 where none were."""
    stored_seconds: float = 0.0
    is_changed: bool = False

    def entries(self) -> dict[str, Entry]:
        """Return the entries by key, as it is stored."""
        return {f"{key:015x}": _unpack(packed) for key, packed in self.packed.items()}

    def replace(self, entries: Mapping[str, Entry]) -> None:
        """Keep exactly these entries."""
        self.packed = {int(key, 16): _pack(entry) for key, entry in entries.items()}


@dataclass(eq=False)
class Workloads:
    """History of the workloads of the cluster. `now_seconds` returns Unix time, `count` gets the result of each entry.

    `are_owners_known` returns whether the controllers were read as far as they can be.
    """

    owners: Owners
    now_seconds: Callable[[], float]
    are_owners_known: Callable[[], bool] = lambda: True
    count: Callable[[str], None] = lambda *_: None

    def __post_init__(self) -> None:
        self.namespaces: dict[str, Namespace] = {}
        self.is_read = False
        """Whether what an earlier leader stored is here."""
        self._most_entries = MOST_WORKLOADS_IN_ALL
        """No fewer than there are; counted where it leaves no room."""
        self._taken: dict[str, int] = {}
        """Time of the newest statement of each node."""

    def __len__(self) -> int:
        return sum(len(namespace.packed) for namespace in self.namespaces.values())

    @property
    def is_known(self) -> bool:
        """Return whether history and controllers were read as far as they can be."""
        return self.is_read and self.are_owners_known()

    def take(self, node: str, status: StoredReport) -> None:
        """Merge the statement of a report, if it is new. The next report repeats one that comes too early."""
        seconds = times.epoch_seconds_or_none(status.workloads_time)
        if seconds is None or not self.is_known:
            return
        time, now = int(seconds), self.now_seconds()
        if not self._taken.get(node, 0) < time <= now + CLOCK_TOLERANCE_SECONDS:
            return
        self._taken[node] = time
        if now - time > history.EXPIRY_SECONDS:
            return
        try:
            stated = msgspec.convert(status.workloads or [], type=list[StatedWorkload])
        except msgspec.ValidationError as error:
            log.warning("node %s: cannot read status.workloads: %s; left out", node, error)
            return
        for workload in stated[:MOST_WORKLOADS]:
            self.count(self._merge(workload, time))

    def _merge(self, stated: StatedWorkload, time: int) -> str:
        if max(stated.cpu.request, stated.memory.request) > _LARGEST_REQUEST:
            return "impossible"
        key = self.owners.key(stated.kind, stated.uid, stated.ordinal)
        if key is None:
            return "unknown_controller"
        namespace = self.namespaces.get(stated.namespace)
        if namespace is None:
            namespace = self.namespaces[sys.intern(stated.namespace)] = Namespace()
        if namespace.read_seconds and time <= namespace.read_seconds + CLOCK_TOLERANCE_SECONDS:
            return "counted_before"
        packed = namespace.packed.get(key)
        if packed is None:
            if self._most_entries >= MOST_WORKLOADS_IN_ALL:
                self._most_entries = len(self)
            if self._most_entries >= MOST_WORKLOADS_IN_ALL:
                return "too_many"
            self._most_entries += 1
        namespace.packed[key] = _pack(history.merge(_unpack(packed) if packed else None, stated, time))
        namespace.is_changed = True
        if len(namespace.packed) > history.MOST_ENTRIES + _SLACK:
            self.prune(namespace)
        return "merged"

    def prune(self, namespace: Namespace) -> None:
        """Drop the entries of a namespace that are expired, or too many."""
        kept = history.keep_heaviest(namespace.entries(), self.now_seconds())
        if len(kept) < len(namespace.packed):
            namespace.replace(kept)
            namespace.is_changed = True

    def forget_node(self, node: str) -> None:
        """Forget the time of the newest statement of a node that is gone."""
        self._taken.pop(node, None)

    def history_of(self, cold_pods: bytes) -> dict[str, bytes]:
        """Return the packed entries of the pods that have one, by the name of the pod in `spec.workloadHistory`."""
        found = {}
        for pod in read_cold_pods(cold_pods):
            namespace = self.namespaces.get(pod.namespace)
            key = self.owners.key(pod.kind, pod.uid, pod.ordinal) if namespace else None
            packed = namespace.packed.get(key) if namespace and key is not None else None
            if packed is not None and not _unpack(packed).is_expired(self.now_seconds()):
                found[pod.pod] = packed
        return found


def read_cold_pods(wire: bytes) -> list[ColdPod]:
    """Decode `status.coldPods`; none where it cannot be read."""
    try:
        return msgspec.json.decode(wire or b"[]", type=list[ColdPod])[:MOST_HISTORY]
    except msgspec.ValidationError:
        return []


def to_wire(found: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Return `spec.workloadHistory`, in the order of the pods' names."""
    return [_unpack(found[pod]).to_wire(pod) for pod in sorted(found)]

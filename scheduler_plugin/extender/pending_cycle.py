"""Keep the extender's state between the calls of one scheduling cycle.

    filter -> `begin`, `pass_on`      prepare -> `take_passed`, `expect`      prioritize -> `response_to`, `end`
    bind -> `take_pod`

kube-scheduler runs one cycle at a time up to prioritize, so only the last filter call can be followed by a prioritize
call. Bindings are asynchronous: the pods of many cycles wait for their bind call.
"""

from __future__ import annotations

import collections
from typing import Final, NamedTuple

from scheduler_plugin.extender.wire_types import RequestedPod
from scheduler_plugin.state.node_columns import RowChanges, Rows
from scheduler_plugin.state.pod_info import PodInfo

_MOST_PODS: Final = 4096  # between filter and bind: many more than one scheduler has in progress
_MOST_BYTES: Final = 32 * 1024**2  # of their JSON: 4096 pods of 8 kB, but some have a megabyte of containers
_PREPARED_SECONDS: Final = 2.0  # the scheduler's own scoring between filter and prioritize takes milliseconds


class Passed(NamedTuple):
    """Candidates that the last filter call passed."""

    head: bytes
    """Bytes of the request before the node names."""
    pod: PodInfo
    rows: Rows
    at: float


class Placement(NamedTuple):
    """The node on which a pod is expected to run."""

    uid: str
    row: int
    """-1: any of several nodes."""


class _Prepared(NamedTuple):
    """Response to the expected prioritize request."""

    request: bytes
    response: bytes
    rows: Rows
    version: int
    """Version of the rows when the response was computed."""
    placement: Placement
    until: float


class PendingCycle:
    """State of the last filter call, and the pods that wait for their bind call."""

    def __init__(self) -> None:
        self._uid = ""
        """UID of the pod between its filter and its prioritize call."""
        self._passed: Passed | None = None
        self._prepared: _Prepared | None = None
        self._pods: collections.OrderedDict[str, tuple[RequestedPod, int]] = collections.OrderedDict()
        """Pod and size of its JSON by UID, oldest first."""
        self._bytes = 0

    def begin(self, uid: str) -> None:
        """Drop the state of the previous filter call, and begin the cycle of a pod."""
        self._uid = uid
        self._passed = self._prepared = None

    def concerns(self, uid: str) -> bool:
        """Return whether the last call was the filter call of this pod."""
        return self._uid == uid

    def end(self) -> None:
        """End the cycle of a pod: its next call belongs to another attempt."""
        self._uid = ""

    def keep_pod(self, pod: RequestedPod, pod_bytes: int) -> None:
        """Keep a pod for its bind call, in place of an earlier try; a negative size means that it is not kept."""
        self.take_pod(pod.metadata.uid)
        if pod_bytes < 0:
            return  # not the encoding of kube-scheduler, the only client that binds
        self._pods[pod.metadata.uid] = (pod, pod_bytes)
        self._bytes += pod_bytes
        while len(self._pods) > _MOST_PODS or self._bytes > _MOST_BYTES:
            self.take_pod(next(iter(self._pods)))

    def find_pod(self, uid: str) -> RequestedPod | None:
        """Return a pod that waits for its bind call."""
        return self._pods.get(uid, (None, 0))[0]

    def take_pod(self, uid: str) -> RequestedPod | None:
        """Remove and return a pod that waits for its bind call."""
        pod, pod_bytes = self._pods.pop(uid, (None, 0))
        self._bytes -= pod_bytes
        return pod

    def pass_on(self, passed: Passed) -> None:
        """Store the candidates that filter passed."""
        self._passed = passed

    def take_passed(self) -> Passed | None:
        """Remove and return the candidates that filter passed."""
        passed, self._passed = self._passed, None
        return passed

    def expect(self, passed: Passed, request: bytes, response: bytes, placement: Placement, version: int) -> None:
        """Store the response to the prioritize request that follows the filter call of `passed`."""
        until = passed.at + _PREPARED_SECONDS
        self._prepared = _Prepared(request, response, passed.rows, version, placement, until)

    def response_to(self, request: bytes, changes: RowChanges, now: float) -> tuple[bytes, Placement] | None:
        """Return the stored response and its best node, if it is for this request, recent, and no candidate changed."""
        prepared = self._prepared
        if prepared is None or now >= prepared.until or request != prepared.request:
            return None
        if changes.version != prepared.version and changes.changed_at[prepared.rows].max() > prepared.version:
            return None
        self.end()
        return prepared.response, prepared.placement

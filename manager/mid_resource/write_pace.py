"""Pace of the writes to the status of one node. Pure.

Every write to a node is sent to every client that watches nodes. So at least two seconds pass between two writes to a
node. While another client changes back what was written, the pause doubles with each time, up to five minutes: the
other client would win each round anyway, and a fight without an end costs the apiserver more than the node is worth.

A withdrawal does not wait for a pause that grew before it: the first one follows two seconds after the last write.
Only a withdrawal that is itself changed back has to wait as long as any other write.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric import mid_status
from manager.cache import store

LEAST_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 300.0
FORGOTTEN_AFTER: Final = dt.timedelta(minutes=10)
"""Longer than the longest pause: a value that lasted that long ends a series of reverts."""
REVERTS_REPORTED_FROM: Final = 3
"""An edit by hand, or a kubelet that drops the keys at its restart, is one."""

_State = tuple[tuple[int | None, ...], tuple[int | None, ...], int]
"""Mid resources in capacity and in allocatable, and the hash of the status annotation, whose text takes 2 KiB."""


class Turn(NamedTuple):
    """Whether a node may be written now."""

    wait_seconds: float = 0.0
    """Zero where it may."""
    is_new_revert: bool = False
    """Whether another client has changed what was written, not seen before."""
    reverts: int = 0
    """Number of reverts in series, this one included."""


@dataclass
class _LastWrite:
    uid: str
    at: dt.datetime
    state: _State | None = None
    withdraws: bool = False
    is_reverted: bool = False
    reverts: int = 0
    reverted_at: dt.datetime | None = None


class WritePace:
    """Last write to each node; times are aware."""

    def __init__(self) -> None:
        self._last: dict[str, _LastWrite] = {}

    def forget(self, name: str) -> None:
        """Drop the state of a node that is gone."""
        self._last.pop(name, None)

    def turn(self, node: store.Node, now: dt.datetime, *, withdraws: bool) -> Turn:
        """Return whether a node that differs from what it should have may be written."""
        last = self._last.get(node.metadata.name)
        if last is None or last.uid != node.metadata.uid:
            return Turn()
        is_new_revert = not last.is_reverted and last.state is not None and last.state != _state_of(node)
        if is_new_revert:
            in_series = last.reverted_at is not None and now - last.reverted_at <= FORGOTTEN_AFTER
            last.reverts = last.reverts + 1 if in_series else 1
            last.is_reverted, last.reverted_at = True, now
        pause = LEAST_SECONDS
        if last.is_reverted and (last.withdraws or not withdraws):
            pause = pause_seconds(last.reverts)
        passed = (now - last.at).total_seconds()
        wait = max(pause - passed, 0.0) if passed >= 0 else 0.0  # the clock was set back: that holds nothing up
        return Turn(wait, is_new_revert, last.reverts)

    def written(self, node: pods.Node, body: Mapping[str, Any], now: dt.datetime, *, withdraws: bool) -> None:
        """Record a patch of the status of a node."""
        last = self._last.get(node.metadata.name)
        if last is None or last.uid != node.metadata.uid:
            last = self._last[node.metadata.name] = _LastWrite(node.metadata.uid, now)
        last.at = now
        if "status" in body:
            last.state, last.withdraws, last.is_reverted = _state_of_patch(body), withdraws, False


def pause_seconds(reverts: int) -> float:
    """Return the least time between a write and the next one, after a number of reverts in series."""
    doublings = min(max(reverts - 1, 0), 32)  # 2^32 seconds are beyond the longest pause
    return min(LEAST_SECONDS * 2.0**doublings, LONGEST_SECONDS)


def _state_of(node: store.Node) -> _State:
    def mid_of(wire: pods.QuantityMap | None) -> Mapping[str, int]:
        return pods.units({name: value for name, value in (wire or {}).items() if name in names.MID_RESOURCES})

    return _state(mid_of(node.status.capacity), mid_of(node.status.allocatable), mid_status.text_of(node))


def _state_of_patch(body: Mapping[str, Any]) -> _State:
    capacity, allocatable = (
        {name: int(value) for name, value in body["status"][part].items() if value is not None}
        for part in ("capacity", "allocatable")
    )
    return _state(capacity, allocatable, body["metadata"]["annotations"].get(names.ANNOTATION_MID_STATUS))


def _state(capacity: Mapping[str, int], allocatable: Mapping[str, int], text: str | None) -> _State:
    return tuple(map(capacity.get, names.MID_RESOURCES)), tuple(map(allocatable.get, names.MID_RESOURCES)), hash(text)

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
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.node_metric import mid_status
from apiserver_client.backoff import Backoff
from manager.cache import store
from manager.mid_resource.formula import published_on

LEAST_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 300.0
FORGOTTEN_AFTER: Final = dt.timedelta(minutes=10)
"""Longer than the longest pause: a value that lasted that long ends a series of reverts."""
REVERTS_REPORTED_FROM: Final = 3
"""An edit by hand, or a kubelet that drops the keys at its restart, is one."""

_State = tuple[tuple[int | None, ...], tuple[int | None, ...], int]
"""Mid resources in capacity and in allocatable, and the hash of the status annotation, whose text takes 2 KiB."""


class WriteTurn(NamedTuple):
    """Whether a node may be written now."""

    wait_seconds: float = 0.0
    """Zero where it may."""
    is_new_revert: bool = False
    """Whether another client has changed what was written, not seen before."""
    reverts: int = 0
    """Number of reverts in series, this one included."""


class WritePace:
    """Last write to one node; times are aware."""

    def __init__(self) -> None:
        self._at: dt.datetime | None = None
        self._state: _State | None = None
        self._withdraws = False
        self._is_reverted = False
        self._reverts = 0
        self._reverted_at: dt.datetime | None = None

    def turn(self, node: store.StoredNode, now: dt.datetime, *, withdraws: bool) -> WriteTurn:
        """Return whether a node that differs from what it should have may be written."""
        if self._at is None:
            return WriteTurn()
        is_new_revert = not self._is_reverted and self._state is not None and self._state != _node_state(node)
        if is_new_revert:
            in_series = self._reverted_at is not None and now - self._reverted_at <= FORGOTTEN_AFTER
            self._reverts = self._reverts + 1 if in_series else 1
            self._is_reverted, self._reverted_at = True, now
        pause = LEAST_SECONDS
        if self._is_reverted and (self._withdraws or not withdraws):
            pause = pause_seconds(self._reverts)
        passed = (now - self._at).total_seconds()
        wait = max(pause - passed, 0.0) if passed >= 0 else 0.0  # the clock was set back: that holds nothing up
        return WriteTurn(wait, is_new_revert, self._reverts)

    def written(self, body: Mapping[str, Any], now: dt.datetime, *, withdraws: bool) -> None:
        """Record a patch of the status of the node."""
        self._at = now
        self._state, self._withdraws, self._is_reverted = _patched_state(body), withdraws, False


def pause_seconds(reverts: int) -> float:
    """Return the least time between a write and the next one, after a number of reverts in series."""
    return Backoff(LEAST_SECONDS, LONGEST_SECONDS).step_seconds(max(reverts - 1, 0))


def _node_state(node: store.StoredNode) -> _State:
    published = published_on(node)
    return _state(published.capacity, published.allocatable, mid_status.text_of(node))


def _patched_state(body: Mapping[str, Any]) -> _State:
    capacity, allocatable = (
        {name: int(value) for name, value in body["status"][part].items() if value is not None}
        for part in ("capacity", "allocatable")
    )
    return _state(capacity, allocatable, body["metadata"]["annotations"].get(names.ANNOTATION_MID_STATUS))


def _state(capacity: Mapping[str, int], allocatable: Mapping[str, int], text: str | None) -> _State:
    return tuple(map(capacity.get, names.MID_RESOURCES)), tuple(map(allocatable.get, names.MID_RESOURCES)), hash(text)

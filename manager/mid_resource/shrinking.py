"""Times since which the Mid resources of nodes shrink: of a withdrawal, or since less is calculated than is requested.

The floor protects running Mid pods from a restart of the kubelet and must not make room for new ones, so in that time
it counts only pods that were bound before it began. The time is in the status annotation, for the next leader.

One sample that is short by noise costs neither a pod list nor a write: all Mid pods of the sample that begins the time
were bound before it, so the list, and the write of the time, come with the next sample that is still short.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from api_types.kubernetes import times
from manager.cache import store

SET_BACK: Final = dt.timedelta(seconds=5)
"""A clock that is set back by less than this only counts pods that were bound so much later."""


class Period(NamedTuple):
    """Time in which Mid shrinks on one node."""

    uid: str
    since: dt.datetime
    sample: dt.datetime | None
    """Sample that began it; None where it began otherwise, or where an earlier leader recorded it."""


class Periods:
    """Periods by node; every one that is still open can be restored from the status annotation."""

    def __init__(self) -> None:
        self._known: dict[str, Period | None] = {}
        """None: ended here; the annotation may hold the old time until its next write."""

    def continue_or_begin(self, node: store.Node, now: dt.datetime, sample: dt.datetime | None) -> Period:
        """Return the open period of a node; begin one where there is none, or where it begins in the future.

        The clock was set back then, and pods that are bound now would count as bound before.
        """
        name = node.metadata.name
        if name in self._known:
            known = self._known[name]
            if known is not None and known.uid == node.metadata.uid and known.since <= now + SET_BACK:
                return known
            written = None
        else:
            written = times.parse_rfc3339_or_none(node.mid_status.floor_before if node.mid_status else None)
            if written is not None and written > now + SET_BACK:
                written = None
        begun = Period(node.metadata.uid, written or now, None if written else sample)
        self._known[name] = begun
        return begun

    def end(self, name: str) -> None:
        """End the period of a node, if one is open."""
        self._known[name] = None

    def forget(self, name: str) -> None:
        """Drop the state of a node that is gone."""
        self._known.pop(name, None)

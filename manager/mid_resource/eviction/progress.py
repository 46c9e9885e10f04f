"""Whether the Mid pods of a node that was closed to be emptied leave it. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

REMOVED_WITHIN: Final = dt.timedelta(minutes=15)
"""Time within which an autoscaler removes an underused node that is empty of Mid pods, or keeps it for good."""
STUCK_AFTER: Final = dt.timedelta(hours=1)
"""Time for which all Mid pods of a closed node stay, as where budgets refuse, or others come in the place of those that
leave: then another node has its turn."""
NOT_CLOSED_FOR: Final = dt.timedelta(minutes=5)
"""Pause of a node that could not be closed: others have their turn."""


@dataclass(slots=True)
class Progress:
    """What the lists of the pods of a node have shown since it was closed.

    A Mid pod that comes in the place of one that left is no progress, and neither is its end: nothing keeps a pod that
    requests no Mid resources off a closed node. So pods that return again and again do not hold the turn of a node.
    """

    left: frozenset[str] = frozenset()
    """UIDs of the Mid pods that the node had first and still has."""
    since: dt.datetime | None = None
    """Time of the closing, or of the list by which the last one of the first pods that has left was gone."""
    empty_since: dt.datetime | None = None
    """Time of the first of the lists without a Mid pod."""

    def begin(self, uids: Iterable[str], now: dt.datetime) -> None:
        """Record that the node was closed, with these Mid pods."""
        self.left, self.since, self.empty_since = frozenset(uids), now, None

    def listed(self, uids: Iterable[str], now: dt.datetime) -> None:
        """Record a list; pods that come after the autoscaler had its time are the first of a new count."""
        here = frozenset(uids)
        was_empty = self.empty_since is not None and now - self.empty_since >= REMOVED_WITHIN
        if self.since is None or (here and was_empty):
            self.begin(here, now)
        elif not self.left <= here:
            self.left, self.since = self.left & here, now
        self.empty_since = None if here else self.empty_since or now

    def is_stuck(self, now: dt.datetime) -> bool:
        """Check whether none of the first pods has left for too long; a caller asks where the node has Mid pods."""
        return self.since is not None and now - self.since >= STUCK_AFTER

"""Rates of the evictions: in the whole cluster within a minute, on a node, of a pod that was refused or evicted. Pure.

Refused attempts use up none of the evictions of the cluster: a tenant whose PodDisruptionBudgets always refuse must not
keep other nodes short. They have a bound of their own, three times as high. A node that was refused waits, and nodes
take turns, so it comes after all others that are due.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

WINDOW: Final = dt.timedelta(minutes=1)
ATTEMPTS_PER_EVICTION: Final = 3
FIRST_REFUSAL: Final = dt.timedelta(seconds=30)
LONGEST_REFUSAL: Final = dt.timedelta(minutes=5)
_MOST_REFUSED: Final = 20_000
_MOST_EVICTED: Final = 20_000
SHOWN_WITHIN: Final = dt.timedelta(minutes=5)
"""Age of an eviction from which on a list shows it: a pod that stays by that list was not evicted after all."""
MOST_RECENT: Final = 600
"""More than a node evicts within a minute; its annotation may name any number."""


class ClusterPace:
    """Times of the evictions and of all attempts of the last minute."""

    def __init__(self) -> None:
        self._evictions: deque[dt.datetime] = deque()
        self._attempts: deque[dt.datetime] = deque()

    def restore(self, times: Iterable[dt.datetime]) -> None:
        """Set the evictions of an earlier leader."""
        self._evictions = deque(sorted(times))

    def room(self, per_minute: int, now: dt.datetime) -> int:
        """Return how many attempts may begin now."""
        for known in (self._evictions, self._attempts):
            while known and known[0] <= now - WINDOW:
                known.popleft()
        room = min(per_minute - len(self._evictions), ATTEMPTS_PER_EVICTION * per_minute - len(self._attempts))
        return max(room, 0)

    def clock_set_back(self, now: dt.datetime) -> None:
        """Count what happened at a later time as of now."""
        self._evictions = deque(min(time, now) for time in self._evictions)
        self._attempts = deque(min(time, now) for time in self._attempts)

    def attempted(self, now: dt.datetime) -> None:
        """Record an attempt, which counts as an eviction until it is known to be refused."""
        self._evictions.append(now)
        self._attempts.append(now)

    def refused(self, at: dt.datetime) -> None:
        """Record that the attempt of this time evicted nothing."""
        if at in self._evictions:
            self._evictions.remove(at)


@dataclass(frozen=True, slots=True)
class _Refusal:
    pause: dt.timedelta
    until: dt.datetime


class Refusals:
    """Pods whose eviction was refused, by UID: each waits 30 s, then twice as long each time, up to 5 minutes.

    A caller may make a pod wait longer: another pod is next only while those before it wait.
    """

    def __init__(self) -> None:
        self._refused: dict[str, _Refusal] = {}

    def add(self, uid: str, now: dt.datetime, at_least: dt.timedelta = dt.timedelta()) -> dt.timedelta:
        """Record a refusal; return the pause."""
        known = self._refused.pop(uid, None)
        pause = FIRST_REFUSAL if known is None else min(known.pause * 2, LONGEST_REFUSAL)
        pause = max(pause, at_least)
        self._refused[uid] = _Refusal(pause, now + pause)
        if len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        return pause

    def knows(self, uid: str) -> bool:
        """Check whether a pod was refused."""
        return uid in self._refused

    def waits(self, uid: str, now: dt.datetime) -> bool:
        """Check whether a pod has to wait; one that was not tried for ten minutes more begins again."""
        known = self._refused.get(uid)
        if known is None:
            return False
        if now > known.until + 2 * LONGEST_REFUSAL:
            del self._refused[uid]
        return now < known.until

    def clock_set_back(self, now: dt.datetime) -> None:
        """Begin every pause again."""
        self._refused = {
            uid: _Refusal(known.pause, min(known.until, now + known.pause)) for uid, known in self._refused.items()
        }

    def forget(self, uid: str) -> None:
        """Drop a pod that is gone."""
        self._refused.pop(uid, None)


class NewlyEvicted:
    """UIDs of pods that were evicted a moment ago: a list from the apiserver's cache may not show it yet."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, dt.datetime] = OrderedDict()

    def add(self, uid: str, now: dt.datetime) -> None:
        """Record a pod, and drop the oldest of too many."""
        self._known.pop(uid, None)
        self._known[uid] = now
        if len(self._known) > _MOST_EVICTED:
            self._known.popitem(last=False)

    def uids(self, now: dt.datetime) -> Collection[str]:
        """Return the pods whose eviction a list may not show yet; older ones are dropped."""
        while self._known and next(iter(self._known.values())) < now - SHOWN_WITHIN:
            self._known.popitem(last=False)
        return self._known.keys()

    def clock_set_back(self, now: dt.datetime) -> None:
        """Count what happened at a later time as of now."""
        self._known = OrderedDict((uid, min(time, now)) for uid, time in self._known.items())

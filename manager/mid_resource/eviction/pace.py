"""Rates of the evictions: in the cluster within a minute, of a pod that was not evicted; their results. Pure.

Refused attempts use up none of the evictions of the cluster: a tenant whose PodDisruptionBudgets always refuse must not
keep other nodes short. They have a bound of their own, three times as high. A node that was refused waits, and nodes
take turns, so it comes after all others that are due.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Final

from apiserver_client import errors
from component_base.rate_limits import SlidingWindow
from manager.metrics.collectors import AttemptResult

WINDOW: Final = dt.timedelta(minutes=1)
ATTEMPTS_PER_EVICTION: Final = 3
_MOST_EVICTED: Final = 20_000
SHOWN_WITHIN: Final = dt.timedelta(minutes=5)
"""Age of an eviction from which on a list shows it: a pod that stays by that list was not evicted after all."""
MOST_RECENT: Final = 600
"""More than a node evicts within a minute; its annotation may name any number."""
_DISRUPTION_BUDGET: Final = "DisruptionBudget"
_OVERLAP: Final = "more than one PodDisruptionBudget"
"""In the message of an answer 500 without a reason, the only one of that code after which the pod certainly stays."""


class ClusterPace:
    """Evictions and attempts of the last minute."""

    def __init__(self) -> None:
        self._evictions = SlidingWindow(WINDOW.total_seconds())
        self._attempts = SlidingWindow(WINDOW.total_seconds())

    def restore(self, times: Iterable[dt.datetime]) -> None:
        """Set the evictions of an earlier leader."""
        self._evictions = SlidingWindow(WINDOW.total_seconds(), (time.timestamp() for time in times))

    def room(self, per_minute: int, now: dt.datetime) -> int:
        """Return how many attempts may begin now."""
        evictions, attempts = self._evictions.count(now.timestamp()), self._attempts.count(now.timestamp())
        return max(min(per_minute - evictions, ATTEMPTS_PER_EVICTION * per_minute - attempts), 0)

    def clock_set_back(self, now: dt.datetime) -> None:
        """Count what happened at a later time as of now."""
        self._evictions.clock_set_back(now.timestamp())
        self._attempts.clock_set_back(now.timestamp())

    def attempted(self, now: dt.datetime) -> None:
        """Record an attempt, which counts as an eviction until it is known to be refused."""
        self._evictions.add(now.timestamp())
        self._attempts.add(now.timestamp())

    def refused(self, at: dt.datetime) -> None:
        """Record that the attempt of this time evicted nothing."""
        self._evictions.remove(at.timestamp())


class NewlyEvicted:
    """UIDs of pods that were evicted a moment ago: a list from the apiserver's cache may not show it yet."""

    def __init__(self) -> None:
        self._pods: OrderedDict[str, dt.datetime] = OrderedDict()

    def add(self, uid: str, now: dt.datetime) -> None:
        """Record a pod, and drop the oldest of too many."""
        self._pods.pop(uid, None)
        self._pods[uid] = now
        if len(self._pods) > _MOST_EVICTED:
            self._pods.popitem(last=False)

    def uids(self, now: dt.datetime) -> Collection[str]:
        """Return the pods whose eviction a list may not show yet; older ones are dropped."""
        while self._pods and next(iter(self._pods.values())) < now - SHOWN_WITHIN:
            self._pods.popitem(last=False)
        return self._pods.keys()

    def clock_set_back(self, now: dt.datetime) -> None:
        """Count what happened at a later time as of now."""
        self._pods = OrderedDict((uid, min(time, now)) for uid, time in self._pods.items())


def classify(error: errors.ApiServerError) -> AttemptResult:
    """Return what an error of the Eviction API means; after FAILED the pod may be evicted all the same."""
    match error:
        case errors.NotFound() | errors.Conflict():
            return AttemptResult.GONE
        case errors.Forbidden():
            return AttemptResult.FORBIDDEN
        case errors.Throttled() if any(cause.reason == _DISRUPTION_BUDGET for cause in error.causes):
            return AttemptResult.REFUSED
        case errors.StatusError(status=400 | 422):
            return AttemptResult.REFUSED
        case errors.ServerError(status=500, reason="") if _OVERLAP in error.server_message:
            return AttemptResult.REFUSED
    return AttemptResult.FAILED

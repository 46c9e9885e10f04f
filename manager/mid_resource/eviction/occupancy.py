"""What reports and pod lists show of a node that may be emptied: whether only Mid pods keep it, and for how long. Pure.

The manager watches no pods. A node is listed when its reports show that Prod requests less there, before it is closed,
and rarely otherwise.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from api_types import names
from manager.mid_resource import decision
from manager.mid_resource.decision import Case
from manager.mid_resource.eviction.pods import Candidate, EvictablePods
from manager.mid_resource.reasons import Closed

_LEFT_ALONE: Final = frozenset({Closed.FROZEN, Closed.LEAVING, Closed.CORDONED})
FIRST_PAUSE: Final = dt.timedelta(hours=1)
LONGEST_PAUSE: Final = dt.timedelta(days=1)
REMOVED_WITHIN: Final = dt.timedelta(minutes=15)
"""Time within which an autoscaler removes a node without Mid pods, or keeps it for good."""
STUCK_AFTER: Final = dt.timedelta(hours=1)
"""Time without fewer Mid pods on a closed node: budgets refuse, or others come in the place of those that leave."""
COUNTS_FOR: Final = dt.timedelta(seconds=5)
"""Age up to which a list is a reason to close a node: another pod may have been bound since."""
LISTED_AGAIN: Final = dt.timedelta(seconds=10)
CLOSED_LISTED_AGAIN: Final = dt.timedelta(seconds=60)
KEPT_LISTED_AGAIN: Final = dt.timedelta(minutes=30)
"""Time after which a node with other pods is listed again, whose reports show no fall of what Prod requests."""
UNKNOWN_LISTED_AGAIN: Final = dt.timedelta(minutes=5)
"""The same where reports do not show what Prod requests."""


@dataclass(slots=True)
class Occupancy:
    """State of one node. Times are of the manager's clock; None where there is none."""

    grace: dt.timedelta = dt.timedelta()
    refusal: str = ""
    """Why the node is never emptied; empty where it may be."""
    is_left_alone: bool = False
    """Whether the node leaves, its operator empties it, or all nodes are frozen."""
    prod: tuple[int, int] | None = None
    """Requests of Prod pods by the newest report with them, DaemonSets among them."""
    prod_when_listed: tuple[int, int] | None = None
    tried: dt.datetime | None = None
    """Time of the last list, also of one that failed."""
    listed: dt.datetime | None = None
    keeper: str = ""
    """A pod that keeps the node beside its Mid pods, as namespace and name."""
    mid_pods: tuple[Candidate, ...] = ()
    """Those that may be evicted."""
    since: dt.datetime | None = None
    """Time of the first of the lists without a keeper."""
    fewest: tuple[int, dt.datetime] | None = None
    """Fewest Mid pods since the node was closed, and the time from which there were so few."""
    pause: dt.timedelta = dt.timedelta()
    """Length of the last pause after the node was given up; it doubles with each one."""
    not_before: dt.datetime | None = None
    """End of that pause."""

    def observe(self, case: Case, grace: dt.timedelta, autoscaler: str) -> None:
        """Record a reconcile of the node."""
        self.grace = grace
        kept = decision.why_kept(case.node, autoscaler)
        self.refusal = kept or ("" if grace else "midEviction.emptyNodeSeconds is 0 now")
        self.is_left_alone = case.closed in _LEFT_ALONE
        requests = case.inputs.usable.requests if case.inputs.usable else None
        if requests is not None:
            self.prod = requests.prod.get(names.CPU, 0), requests.prod.get(names.MEMORY, 0)
        if self.refusal or self.is_left_alone:
            self.begin_again()

    def begin_again(self) -> None:
        """Forget what lists have shown, but not that the node was given up."""
        self.tried = self.listed = self.since = self.fewest = None
        self.keeper, self.mid_pods = "", ()

    def clock_set_back(self, now: dt.datetime) -> None:
        """Begin as a new leader does, with no pause that is longer than it was."""
        self.begin_again()
        self.not_before = self.not_before and min(self.not_before, now + self.pause)

    def list_shows(self, keeper: str, pods: EvictablePods, now: dt.datetime) -> None:
        """Record a list of the node's pods."""
        self.listed, self.prod_when_listed = now, self.prod
        self.keeper, self.mid_pods = keeper, tuple(pod for pod in pods.staying if not pod.protected)
        if keeper:
            self.since = self.not_before = None
            self.pause = dt.timedelta()
        elif self.since is None:
            self.since = max(now, self.not_before or now)
        count = len(self.mid_pods) + len(pods.leaving)
        if self.fewest is None or count < self.fewest[0]:
            self.fewest = count, now

    def leave_alone(self, now: dt.datetime) -> None:
        """Begin the grace again after a pause that doubles each time."""
        self.pause = min(max(2 * self.pause, FIRST_PAUSE), LONGEST_PAUSE)
        self.not_before = now + self.pause
        self.since = self.since and self.not_before

    def is_pressing(self, now: dt.datetime, *, is_closed: bool) -> bool:
        """Check whether the node is to be listed now, before others."""
        if self.refusal or self.is_left_alone or (self.tried is not None and now - self.tried < LISTED_AGAIN):
            return False
        before = self.prod_when_listed
        if is_closed:
            rose = self.prod and before and any(new > old for new, old in zip(self.prod, before, strict=True))
            return bool(rose) or self.tried is None or now - self.tried >= CLOSED_LISTED_AGAIN
        if self.since is not None:
            return now - self.since >= self.grace
        fell = self.prod and before and any(new < old for new, old in zip(self.prod, before, strict=True))
        return bool(fell)

    def is_old(self, now: dt.datetime) -> bool:
        """Check whether the last list is old enough to be renewed, whatever the reports show."""
        if self.refusal or self.is_left_alone or self.since is not None:
            return False
        again = UNKNOWN_LISTED_AGAIN if self.prod is None else KEPT_LISTED_AGAIN
        return self.tried is None or now - self.tried >= (again if self.listed else LISTED_AGAIN)

    def is_due(self, now: dt.datetime) -> bool:
        """Check whether only Mid pods have kept the node for its grace, by a list that was just made."""
        if self.refusal or self.is_left_alone or self.since is None or self.listed is None or not self.mid_pods:
            return False
        return now - self.listed <= COUNTS_FOR and self.listed - self.since >= self.grace

    def is_waiting(self) -> bool:
        """Check whether only Mid pods keep the node."""
        return self.since is not None and bool(self.mid_pods) and not self.refusal

    def why_reopened(self, now: dt.datetime) -> str:
        """Return why a closed node opens again; empty where it stays closed."""
        if self.refusal or self.is_left_alone:
            return self.refusal
        if self.keeper:
            return f"the pod {self.keeper} runs there"
        if self.fewest is None:
            return ""
        pods, since = self.fewest
        if pods:
            minutes = STUCK_AFTER.total_seconds() / 60
            stuck = f"its Mid pods stayed, or others came, for {minutes:g} minutes"
            return stuck if now - since >= STUCK_AFTER else ""
        minutes = REMOVED_WITHIN.total_seconds() / 60
        return f"no autoscaler has removed it within {minutes:g} minutes" if now - since >= REMOVED_WITHIN else ""


def requested(mid_pods: Iterable[Candidate]) -> tuple[int, int]:
    """Return the sum of the Mid requests: CPU in milli-cores, memory in bytes."""
    cpu, memory = names.MID_RESOURCES
    listed = list(mid_pods)
    return sum(pod.requests.get(cpu, 0) for pod in listed), sum(pod.requests.get(memory, 0) for pod in listed)

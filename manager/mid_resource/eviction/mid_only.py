"""Nodes that Mid pods keep: which one is listed next, which one is emptied next, and which one waits. Pure.

An autoscaler removes a node whose pods have another place. Mid pods have none where a backlog fills what is published,
so a node that has lost its other pods would stay for them. It is closed for new Mid pods, and those that run there
leave. It stays closed until another pod runs there or the autoscaler removes it. So a pod that returns to another node
of that kind moves at most once for each such node: every step closes one, and none opens by itself.

The same is done, where it is configured, with a node whose other pods request little and fit elsewhere: an autoscaler
would move them and remove the node, but for its Mid pods. Only so many nodes are closed that the other pods of all of
them fit on the rest. If the autoscaler keeps such a node all the same, it opens again, and is left alone for a time.

A closed node counts against the bound for as long as it exists. Where nothing removes such nodes, the bound is soon
reached, and no further one is emptied.

The manager watches no pods. Reports show when the requests of Prod fall; only then, and rarely otherwise, the pods of a
node are listed. Which underused node is next is decided by lists that may be old; those that would be closed are listed
again.
"""

from __future__ import annotations

import datetime as dt
import enum
import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from api_types.node_metric import mid_eviction
from manager.mid_resource.eviction.pod_view import Candidate, Keeper, kept_by
from manager.mid_resource.eviction.progress import REMOVED_WITHIN, STUCK_AFTER, Progress
from manager.mid_resource.eviction.reported import Reported
from manager.mid_resource.eviction.room import Amounts, Room, Rooms, total

_NEVER: Final = dt.datetime.min.replace(tzinfo=dt.UTC)
_MID_ONLY: Final = 1
"""Rank of nodes that only Mid pods keep for longer than the grace, and of those that are closed."""
LEFT_ALONE_FOR: Final = dt.timedelta(hours=1)
"""Pause after another pod or an autoscaler kept such a node, its Mid pods stayed, or the right to evict was missing."""
COUNTS_FOR: Final = dt.timedelta(seconds=5)
"""Age up to which a list is a reason to close a node: another pod may have been bound since."""
LISTED_AGAIN: Final = dt.timedelta(seconds=10)
"""Time after which a node that only Mid pods keep is listed again: it waits for its turn, or its list failed."""
EMPTIED_LISTED_AGAIN: Final = dt.timedelta(seconds=60)
LESS_PRESSING: Final = 5
"""One of so many lists is kept for nodes that are less pressing than those that only Mid pods keep."""
MOST_COMPARED: Final = 50
"""Underused nodes that are compared with the room on others in a period, those that request the least."""
KEPT_LISTED_AGAIN: Final = dt.timedelta(minutes=30)
"""The same for a node with other pods, whose reports show no fall of what Prod requests."""
UNKNOWN_LISTED_AGAIN: Final = dt.timedelta(minutes=5)
"""The same where reports do not show it."""


@dataclass(slots=True)
class _Known:
    reported: Reported
    tried: dt.datetime | None = None
    """Time of the last list, also of one that failed."""
    listed: dt.datetime | None = None
    prod_when_listed: Amounts | None = None
    keepers: tuple[Keeper, ...] = ()
    """The pods that keep the node; none where only Mid pods do."""
    others: tuple[Amounts, ...] | None = ()
    """Their requests; None where no autoscaler moves one of them."""
    since: dt.datetime | None = None
    """Time of the first of the lists without a keeper."""
    underused_since: dt.datetime | None = None
    """Time of the first of the reports since which all of them showed little Prod."""
    not_before: dt.datetime | None = None
    """End of the pause after the node was given up; None where it never was."""
    mid_pods: tuple[Candidate, ...] = ()
    """Those that may be evicted."""
    leave: bool = False
    """Whether others terminate."""
    progress: Progress = field(default_factory=Progress)
    """Whether its Mid pods leave, if it is closed."""

    def may_have_mid_pods(self, now: dt.datetime) -> bool:
        """Check whether there is a Mid pod to evict: by the newest list, or by a report where that list is old."""
        if self.mid_pods or self.listed is None:
            return True
        return self.reported.has_mid_pods and now - self.listed >= EMPTIED_LISTED_AGAIN


class MidOnly(NamedTuple):
    """A node that only Mid pods keep, or only they and pods that might fit elsewhere, for longer than its grace."""

    name: str
    since: dt.datetime
    mid_pods: tuple[Candidate, ...]
    reported: Reported
    others: tuple[Amounts, ...] = ()
    """Requests of the other pods, which have to fit elsewhere."""


class Step(enum.StrEnum):
    """What is done with a node that Mid pods keep."""

    EMPTY = "empty"
    EMPTY_WITHOUT_ROOM = "empty-without-room"
    AWAIT_ROOM = "await-room"
    AWAIT_TURN = "await-turn"

    @property
    def empties(self) -> bool:
        """Check whether the node is closed and emptied."""
        return self in (Step.EMPTY, Step.EMPTY_WITHOUT_ROOM)


class Choice(NamedTuple):
    """A node, and what is done with it."""

    node: MidOnly
    step: Step


class Survey:
    """The nodes that may be emptied, and those that have room for the pods of others. Times are aware."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Known] = {}

    def observe(self, name: str, reported: Reported, now: dt.datetime) -> None:
        """Record a reconcile of a node."""
        known = self._nodes.get(name)
        if known is None or known.reported.uid != reported.uid:
            known = self._nodes[name] = _Known(reported)
        known.reported = reported
        if reported.is_left_alone or not reported.may_be_emptied:
            # what was found before counts no longer
            known.listed = known.since = known.underused_since = None
            known.progress = Progress()
        elif not reported.is_underused:
            known.underused_since = None
        elif known.underused_since is None:
            known.underused_since = now

    def forget(self, name: str) -> None:
        """Drop a node that is gone."""
        self._nodes.pop(name, None)

    def clock_set_back(self) -> None:
        """Begin as a new leader does, with what the reports show."""
        self._nodes = {name: _Known(known.reported) for name, known in self._nodes.items()}

    def reported(self, name: str) -> Reported | None:
        """Return the newest reconcile of a node."""
        known = self._nodes.get(name)
        return known.reported if known else None

    def is_wanted(self) -> bool:
        """Check whether any node may be emptied."""
        return any(known.reported.may_be_emptied for known in self._nodes.values())

    def due(self, emptied: Collection[str], most: int, now: dt.datetime, promising: Collection[str] = ()) -> list[str]:
        """Return the nodes to list now, the most pressing first; `emptied` are those that are closed for it.

        Among equals the one that was listed longest ago comes first. Those that Mid pods keep do not take all lists.
        """
        found = []
        for name, known in self._nodes.items():
            rank = _emptied_rank(known, now) if name in emptied else _rank(known, now, is_promising=name in promising)
            if rank is not None:
                found.append((rank, known.tried or _NEVER, known.reported.prod or (0, 0), name))
        found.sort()
        first = most - most // LESS_PRESSING
        later = sorted(found[first:], key=lambda each: each[0] <= _MID_ONLY)
        return [name for *_, name in (*found[:first], *later[: most - first])]

    def closed(self, name: str, now: dt.datetime) -> None:
        """Record that a node was closed: from now on its Mid pods are evicted."""
        if (known := self._nodes.get(name)) is not None:
            known.progress.begin((pod.uid for pod in known.mid_pods), now)

    def attempted(self, name: str, now: dt.datetime) -> None:
        """Record that the pods of a node are being listed."""
        if name in self._nodes:
            self._nodes[name].tried = now

    def listed(
        self,
        name: str,
        keepers: Iterable[Keeper],
        mid_pods: Iterable[Candidate],
        now: dt.datetime,
        leaving: Iterable[Candidate] = (),
    ) -> None:
        """Record a list of the pods of a node. No autoscaler removes it before those that terminate have ended."""
        known = self._nodes.get(name)
        if known is None:
            return
        known.listed, known.prod_when_listed = now, known.reported.prod
        known.keepers, known.mid_pods = tuple(keepers), tuple(mid_pods)
        others = tuple(keeper.requests for keeper in known.keepers if keeper.requests is not None)
        known.others = others if len(others) == len(known.keepers) else None
        left = [pod.uid for pod in leaving]
        known.leave = bool(left)
        known.progress.listed((*(pod.uid for pod in known.mid_pods), *left), now)
        known.since = None if known.keepers else known.since or now

    def mid_pods(self, name: str) -> tuple[Candidate, ...]:
        """Return the Mid pods of a node that may be evicted, by its newest list."""
        known = self._nodes.get(name)
        return known.mid_pods if known else ()

    def why_reopened(self, name: str, trigger: str, last: dt.datetime, now: dt.datetime) -> str:
        """Return why an emptied node, `last` evicted from or closed then, opens again; empty where it stays closed."""
        known = self._nodes.get(name)
        if known is None:
            return ""
        if not known.reported.may_be_emptied:
            return known.reported.kept_because or "midEviction.emptyNodeSeconds is 0 now"
        if (kept := kept_by(known.keepers, trigger)) and trigger == mid_eviction.MID_ONLY:
            return kept
        if trigger != mid_eviction.MID_ONLY and known.reported.is_current and not known.reported.is_underused:
            return f"its other pods request more than {known.reported.underused_percent} % of it"
        if why := kept or _why_given_up(known, trigger, last, now):
            self.leave_alone(name, now)
        return why

    def leave_alone(self, name: str, now: dt.datetime, pause: dt.timedelta = LEFT_ALONE_FOR) -> None:
        """Record that a node is open although only Mid pods keep it: its grace begins after a pause."""
        if (known := self._nodes.get(name)) is not None:
            known.not_before = now + pause
            known.since = known.since and known.not_before

    def mid_only(self, emptied: Collection[str], now: dt.datetime) -> list[MidOnly]:
        """Return the nodes whose grace is over: those never given up first, then the one given up longest ago.

        Of those never given up, nodes that only Mid pods keep are first, then those whose other pods request the least.
        """
        found = [
            self._mid_only(name, since)
            for name, known, since in self._candidates(emptied, now)
            if known.mid_pods and _lasts(known, since, now)
        ]
        return sorted(found, key=self._order)

    def promising(self, emptied: Collection[str], slots: int, now: dt.datetime) -> list[str]:
        """Return the underused nodes that would be closed by their newest lists, however old these are."""
        if slots <= 0:
            return []
        found = [
            (known.not_before or _NEVER, known.reported.prod or (0, 0), name, since)
            for name, known, since in self._candidates(emptied, now)
            if known.keepers and known.may_have_mid_pods(now) and now - since >= known.reported.graces.with_room
        ]
        if not found:
            return []
        nodes = [self._mid_only(name, since) for *_, name, since in heapq.nsmallest(MOST_COMPARED, found)]
        return [each.node.name for each in choices(nodes, self.rooms(emptied), slots, now) if each.step.empties]

    def _mid_only(self, name: str, since: dt.datetime) -> MidOnly:
        known = self._nodes[name]
        return MidOnly(name, since, known.mid_pods, known.reported, known.others or ())

    def _candidates(self, emptied: Collection[str], now: dt.datetime) -> Iterator[tuple[str, _Known, dt.datetime]]:
        """Yield the nodes that may be emptied, open ones, with the time since which they are to be."""
        for name, known in self._nodes.items():
            reported, since = known.reported, _since(known, now)
            if since is not None and name not in emptied and reported.may_be_emptied and not reported.is_left_alone:
                yield name, known, since

    def _order(self, node: MidOnly) -> tuple[dt.datetime, Amounts, Amounts, str]:
        given_up = self._nodes[node.name].not_before or _NEVER
        return given_up, total(node.others), requested(node.mid_pods), node.name

    def rooms(self, emptied: Collection[str]) -> Rooms:
        """Return the room on the nodes that stay, after the pods of the emptied ones have found a place.

        A place for Mid pods is a node that other pods keep, or that is not to be emptied. One that was not listed yet
        is none: it may be one that only Mid pods keep. A place for the others is the same, closed for Mid or not.
        """
        stay = [(name, each) for name, each in self._nodes.items() if each.keepers or not each.reported.may_be_emptied]
        open_ = [(name, each) for name, each in stay if name not in emptied and not each.reported.is_left_alone]
        mid = Room({name: each.reported.free for name, each in open_ if not each.reported.closed})
        native = Room({name: each.reported.native_free for name, each in open_})
        for each in [self._nodes[name] for name in emptied if name in self._nodes]:
            mid.take(pod.mid_amounts for pod in each.mid_pods)
            native.take(keeper.requests or (0, 0) for keeper in each.keepers)
        return Rooms(mid, native)

    def counts(self, emptied: Collection[str]) -> dict[str, int]:
        """Return the number of nodes that only Mid pods keep and are not closed, and of those that are."""
        waiting = sum(
            known.since is not None and bool(known.mid_pods) and known.reported.may_be_emptied and name not in emptied
            for name, known in list(self._nodes.items())
        )
        return {"waiting": waiting, "closed": len(emptied)}


def _why_given_up(known: _Known, trigger: str, last: dt.datetime, now: dt.datetime) -> str:
    """Return what did not happen to a closed node in its time; empty where it has time left."""
    if known.mid_pods or (known.leave and trigger == mid_eviction.MID_ONLY):
        if not known.progress.is_stuck(now):
            return ""
        return f"its Mid pods stayed, or others came, for {STUCK_AFTER.total_seconds() / 60:g} minutes"
    if trigger == mid_eviction.MID_ONLY or known.listed is None or abs(now - last) < REMOVED_WITHIN:
        return ""
    return f"no autoscaler has removed it within {REMOVED_WITHIN.total_seconds() / 60:g} minutes"


def _since(known: _Known, now: dt.datetime) -> dt.datetime | None:
    """Return since when the node is one to be emptied; None where it is none."""
    if not known.keepers:
        return known.since
    if known.not_before is not None and now < known.not_before:
        return None
    return known.underused_since if known.others is not None else None


def _lasts(known: _Known, since: dt.datetime, now: dt.datetime) -> bool:
    """Check whether the grace is over by a list that was just made."""
    if known.listed is None or now - known.listed > COUNTS_FOR:
        return False
    return known.listed - since >= known.reported.graces.with_room


def _age(known: _Known, now: dt.datetime) -> dt.timedelta:
    return dt.timedelta.max if known.tried is None else now - known.tried


def _emptied_rank(known: _Known, now: dt.datetime) -> int | None:
    """Return how pressing it is to list a closed node: what Prod requests there may have risen."""
    if _age(known, now) < LISTED_AGAIN:
        return None
    before, prod = known.prod_when_listed, known.reported.prod
    if prod is not None and before is not None and any(new > old for new, old in zip(prod, before, strict=True)):
        return 0
    return _MID_ONLY if _age(known, now) >= EMPTIED_LISTED_AGAIN else None


def _rank(known: _Known, now: dt.datetime, *, is_promising: bool) -> int | None:
    """Return how pressing it is to list an open node; None where it is not."""
    if not known.reported.may_be_emptied or known.reported.is_left_alone or _age(known, now) < LISTED_AGAIN:
        return None
    if known.listed is None:
        return 3
    if not known.keepers:
        return _MID_ONLY if known.since is None or now - known.since >= known.reported.graces.with_room else None
    if is_promising or _has_lost_pods(known):
        return 2
    again = UNKNOWN_LISTED_AGAIN if known.reported.prod is None else KEPT_LISTED_AGAIN
    return 4 if _age(known, now) >= again else None


def _has_lost_pods(known: _Known) -> bool:
    """Check whether reports show that a node has lost other pods."""
    before, prod = known.prod_when_listed, known.reported.prod
    return prod is not None and before is not None and any(new < old for new, old in zip(prod, before, strict=True))


def requested(mid_pods: Iterable[Candidate]) -> Amounts:
    """Return the sum of the Mid requests of pods."""
    return total(pod.mid_amounts for pod in mid_pods)


def choices(nodes: Iterable[MidOnly], rooms: Rooms, slots: int, now: dt.datetime) -> Iterator[Choice]:
    """Yield what is done with each node, in order; a node whose other pods fit nowhere else is left out.

    Pods of nodes that are emptied already have their place in `rooms`.
    """
    mid, native = rooms
    for node in nodes:
        without = node.reported.graces.without_room
        if slots <= 0:
            if not node.others:
                yield Choice(node, Step.AWAIT_TURN)
            continue
        native_after = None if native.is_taken(node.name) else native.after(node.others, node.name)
        if native_after is None:
            continue
        mid_after = mid.after((pod.mid_amounts for pod in node.mid_pods), node.name)
        if mid_after is not None:
            yield Choice(node, Step.EMPTY)
        elif without and now - node.since >= without:
            yield Choice(node, Step.EMPTY_WITHOUT_ROOM)
            mid.close(node.name)
            mid.take(pod.mid_amounts for pod in node.mid_pods)
        else:
            yield Choice(node, Step.AWAIT_ROOM)
            continue
        mid, native, slots = mid_after or mid, native_after, slots - 1

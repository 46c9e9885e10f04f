"""Nodes that only Mid pods keep: which one is listed next, which one is emptied next, and which one waits. Pure.

An autoscaler removes a node whose pods have another place. Mid pods have none where a backlog fills what is published,
so a node that has lost its other pods would stay for them. It is closed for new Mid pods, and those that run there
leave. It stays closed until another pod runs there or the autoscaler removes it. So a pod that returns to another node
of that kind moves at most once for each such node: every step closes one, and none opens by itself.

A closed node counts against the bound for as long as it exists. Where nothing removes such nodes, the bound is soon
reached, and no further one is emptied.

The manager watches no pods. Reports show when the requests of Prod fall; only then, and rarely otherwise, the pods of a
node are listed.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from api_types import names
from manager.mid_resource.eviction.pod_view import Candidate
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.reasons import Closed

_LEFT_ALONE: Final = frozenset({Closed.FROZEN, Closed.LEAVING, Closed.CORDONED})
Amounts = tuple[int, int]
"""CPU in milli-cores, memory in bytes."""

EMPTY_AFTER: Final = dt.timedelta(seconds=300)
"""Beside an autoscaler, where no key sets it: a rollout of Prod, and the next pods of a Job, are over by then."""
EMPTY_WITHOUT_ROOM_AFTER: Final = dt.timedelta(seconds=600)
COUNTS_FOR: Final = dt.timedelta(seconds=5)
"""Age up to which a list is a reason to close a node: another pod may have been bound since."""
LISTED_AGAIN: Final = dt.timedelta(seconds=30)
"""Time after which a node that only Mid pods keep is listed again."""
EMPTIED_LISTED_AGAIN: Final = dt.timedelta(seconds=60)
KEPT_LISTED_AGAIN: Final = dt.timedelta(minutes=30)
"""The same for a node with other pods, whose reports show no fall of what Prod requests."""
UNKNOWN_LISTED_AGAIN: Final = dt.timedelta(minutes=5)
"""The same where reports do not show it."""


class Graces(NamedTuple):
    """Times for which only Mid pods keep a node that is then emptied; zero for never."""

    with_room: dt.timedelta
    without_room: dt.timedelta


def graces(policy: EvictionPolicy, autoscaler: str) -> Graces:
    """Return the graces of a node; a key that is not set follows the autoscaler."""
    default = dt.timedelta() if autoscaler == "none" else EMPTY_AFTER
    with_room = default if policy.empty_after is None else policy.empty_after
    without = EMPTY_WITHOUT_ROOM_AFTER if policy.empty_without_room_after is None else policy.empty_without_room_after
    if policy.mode == "off" or not with_room:
        return Graces(dt.timedelta(), dt.timedelta())
    return Graces(with_room, max(without, with_room) if without else dt.timedelta())


@dataclass(frozen=True, slots=True)
class Reported:
    """What the newest reconcile of a node shows."""

    uid: str
    policy: EvictionPolicy
    graces: Graces
    kept_because: str = ""
    """Why no autoscaler would remove it; empty where one would."""
    closed: Closed = Closed.NO
    prod: Amounts | None = None
    """Requests of the Prod pods, those of DaemonSets among them; None where they are not reported."""
    free: Amounts = (0, 0)
    """Mid resources that no pod requests."""

    @property
    def may_be_emptied(self) -> bool:
        """Check whether the node is emptied once only Mid pods keep it."""
        return bool(self.graces.with_room) and not self.kept_because

    @property
    def is_left_alone(self) -> bool:
        """Check whether the node is not to be emptied now: it leaves, its operator empties it, or all are frozen."""
        return self.closed in _LEFT_ALONE


@dataclass(slots=True)
class _Known:
    reported: Reported
    tried: dt.datetime | None = None
    """Time of the last list, also of one that failed."""
    listed: dt.datetime | None = None
    prod_when_listed: Amounts | None = None
    keeper: str = ""
    """One of the pods that keep the node; empty where only Mid pods do."""
    since: dt.datetime | None = None
    """Time of the first of the lists without a keeper."""
    mid_pods: tuple[Candidate, ...] = ()


class MidOnly(NamedTuple):
    """A node that only Mid pods keep, for longer than its grace."""

    name: str
    since: dt.datetime
    mid_pods: tuple[Candidate, ...]
    reported: Reported


class Step(enum.StrEnum):
    """What is done with a node that only Mid pods keep."""

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

    def observe(self, name: str, reported: Reported) -> None:
        """Record a reconcile of a node."""
        known = self._nodes.get(name)
        if known is None or known.reported.uid != reported.uid:
            self._nodes[name] = _Known(reported)
            return
        known.reported = reported
        if reported.is_left_alone or not reported.may_be_emptied:
            known.listed = known.since = None  # what was found before counts no longer

    def forget(self, name: str) -> None:
        """Drop a node that is gone."""
        self._nodes.pop(name, None)

    def reported(self, name: str) -> Reported | None:
        """Return the newest reconcile of a node."""
        known = self._nodes.get(name)
        return known.reported if known else None

    def is_wanted(self) -> bool:
        """Check whether any node may be emptied."""
        return any(known.reported.may_be_emptied for known in self._nodes.values())

    def due(self, emptied: Collection[str], most: int, now: dt.datetime) -> list[str]:
        """Return the nodes to list now, the most pressing first; `emptied` are those that are closed for it."""
        found = []
        for name, known in self._nodes.items():
            rank = _emptied_rank(known, now) if name in emptied else _rank(known, now)
            if rank is not None:
                found.append((rank, known.reported.prod or (0, 0), name))
        return [name for _, _, name in sorted(found)[:most]]

    def attempted(self, name: str, now: dt.datetime) -> None:
        """Record that the pods of a node are being listed."""
        if name in self._nodes:
            self._nodes[name].tried = now

    def listed(self, name: str, keepers: Sequence[str], mid_pods: Iterable[Candidate], now: dt.datetime) -> None:
        """Record a list of the pods of a node."""
        known = self._nodes.get(name)
        if known is None:
            return
        known.listed, known.prod_when_listed = now, known.reported.prod
        known.keeper, known.mid_pods = keepers[0] if keepers else "", tuple(mid_pods)
        known.since = None if keepers else known.since or now

    def why_reopened(self, name: str) -> str:
        """Return why an emptied node accepts new Mid pods again; empty where it stays closed."""
        known = self._nodes.get(name)
        if known is None:
            return ""
        if not known.reported.graces.with_room:
            return "midEviction.emptyNodeSeconds is 0 now"
        return known.reported.kept_because or (f"the pod {known.keeper} runs there" if known.keeper else "")

    def mid_only(self, emptied: Collection[str], now: dt.datetime) -> list[MidOnly]:
        """Return the nodes whose grace is over, those with the fewest requests of Mid pods first."""
        found = []
        for name, known in self._nodes.items():
            reported, since = known.reported, known.since
            if name in emptied or not reported.may_be_emptied or reported.is_left_alone or not known.mid_pods:
                continue
            if since is not None and _lasts(known, since, now):
                found.append(MidOnly(name, since, known.mid_pods, reported))
        return sorted(found, key=lambda node: (requested(node.mid_pods), node.name))

    def places(self) -> list[Amounts]:
        """Return the free Mid resources of each node that stays: other pods keep it, or it is not to be emptied.

        A node that was not listed yet is no place: it may be one that only Mid pods keep.
        """
        return [
            known.reported.free
            for known in self._nodes.values()
            if not known.reported.closed and (known.keeper or not known.reported.may_be_emptied)
        ]

    def moving(self, emptied: Iterable[str]) -> list[Candidate]:
        """Return the Mid pods that emptied nodes still have."""
        return [pod for name in emptied if name in self._nodes for pod in self._nodes[name].mid_pods]

    def counts(self, emptied: Collection[str]) -> dict[str, int]:
        """Return the number of nodes that only Mid pods keep and are not closed, and of those that are."""
        waiting = sum(
            known.since is not None and bool(known.mid_pods) and known.reported.may_be_emptied and name not in emptied
            for name, known in list(self._nodes.items())
        )
        return {"waiting": waiting, "closed": len(emptied)}


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
    return 1 if _age(known, now) >= EMPTIED_LISTED_AGAIN else None


def _rank(known: _Known, now: dt.datetime) -> int | None:
    """Return how pressing it is to list an open node; None where it is not."""
    if not known.reported.may_be_emptied or known.reported.is_left_alone or _age(known, now) < LISTED_AGAIN:
        return None
    if known.listed is None:
        return 3
    if not known.keeper:
        return 1 if known.since is None or now - known.since >= known.reported.graces.with_room else None
    before, prod = known.prod_when_listed, known.reported.prod
    if prod is None or before is None:
        return 4 if _age(known, now) >= UNKNOWN_LISTED_AGAIN else None
    if any(new < old for new, old in zip(prod, before, strict=True)):
        return 2
    return 4 if _age(known, now) >= KEPT_LISTED_AGAIN else None


def requested(mid_pods: Iterable[Candidate]) -> Amounts:
    """Return the sum of the Mid requests of pods."""
    found = [_amounts(pod) for pod in mid_pods]
    return sum(cpu for cpu, _ in found), sum(memory for _, memory in found)


def _amounts(pod: Candidate) -> Amounts:
    return pod.requests.get(names.MID_CPU, 0), pod.requests.get(names.MID_MEMORY, 0)


class Room:
    """Free Mid resources of several nodes, from which the pods of emptied nodes are subtracted."""

    def __init__(self, places: Iterable[Amounts]) -> None:
        self._left = sorted(([cpu, memory] for cpu, memory in places if cpu or memory), reverse=True)

    def take(self, mid_pods: Iterable[Candidate]) -> bool:
        """Find a place for every pod, the largest first; without one for each, nothing is subtracted."""
        left = [list(each) for each in self._left]
        for pod in sorted(map(_amounts, mid_pods), reverse=True):
            if not _placed(pod, left):
                return False
        self._left = left
        return True


def _placed(pod: Amounts, left: list[list[int]]) -> bool:
    for place in left:
        if place[0] >= pod[0] and place[1] >= pod[1]:
            place[0] -= pod[0]
            place[1] -= pod[1]
            return True
    return False


def choices(
    nodes: Iterable[MidOnly], room: Room, moving: Iterable[Candidate], slots: int, now: dt.datetime
) -> Iterator[Choice]:
    """Yield what is done with each node, in order. `moving` are pods of emptied nodes, which have their place first."""
    for pod in moving:
        room.take([pod])
    for node in nodes:
        without = node.reported.graces.without_room
        if slots <= 0:
            yield Choice(node, Step.AWAIT_TURN)
        elif room.take(node.mid_pods):
            yield Choice(node, Step.EMPTY)
            slots -= 1
        elif without and now - node.since >= without:
            yield Choice(node, Step.EMPTY_WITHOUT_ROOM)
            slots -= 1
        else:
            yield Choice(node, Step.AWAIT_ROOM)

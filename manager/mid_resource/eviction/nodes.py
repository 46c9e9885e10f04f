"""Which nodes are due for an eviction, in which order, and which may accept new Mid pods again. Pure.

Nodes take turns: one that was never tried comes first, then the one whose last attempt is longest ago. So no node can
keep the evictions of the cluster to itself, whatever its agent reports or its tenants protect.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from api_types.kubernetes import times
from api_types.node_metric.mid_eviction import MidEvictionRecord
from manager.mid_resource.decision import STAYS, Departure
from manager.mid_resource.eviction import shortage
from manager.mid_resource.eviction.pods import FIRST_PAUSE, LONGEST_PAUSE, Candidate, Occupancy
from manager.mid_resource.eviction.policy import DRAIN_FACTOR, EvictionPolicy
from manager.mid_resource.eviction.shortage import Observation, Trigger, Watching
from manager.mid_resource.reasons import Closed

_NEVER = dt.datetime.min.replace(tzinfo=dt.UTC)
LEAVE_WITHIN: Final = dt.timedelta(seconds=60)
"""Half of the shortest notice of a spot interruption that leaves time for grace periods, which is 120 s."""
ROUND: Final = dt.timedelta(seconds=1)
"""Time between two rounds of evictions."""
MOST_AT_ONCE: Final = 8
"""Most pods of a node in one round: several hundred within LEAVE_WITHIN."""
NOTHING_TO_DO: Final = dt.timedelta(seconds=30)
"""Pause of a node of which no pod can go, or whose pods cannot be read."""
NEXT_POD: Final = dt.timedelta(seconds=10)
"""Pause of a node after a refusal."""
FIRST_REFUSAL: Final = dt.timedelta(seconds=30)
LONGEST_REFUSAL: Final = dt.timedelta(minutes=5)
OPENED_AGAIN: Final = dt.timedelta(seconds=30)
"""Pause after a node could not be opened."""
BLIND_FOR: Final = dt.timedelta(hours=1)
"""Time without a report on which an eviction may be based, after which none is expected any more."""
_URGENCY: Final = {Trigger.LEAVING: 0, Trigger.MID_ONLY: 2}
"""Order of the causes, of which all others have 1."""


def causes(
    shortages: frozenset[Trigger], policy: EvictionPolicy, record: MidEvictionRecord | None, departure: Departure
) -> frozenset[Trigger]:
    """Return what evicts from a node: one cause that concerns every Mid pod, else its shortages.

    On a cordoned node, and while the emptying of a node is interrupted, Mid pods stay unless the memory of the node is
    high: where Prod has left, next to nothing is calculated, which is no need of Prod. Prod that grows there needs
    memory; of the CPU, Mid pods have what Prod leaves.
    """
    if policy.mode == "off":
        return frozenset()
    if departure.is_leaving:
        return frozenset({Trigger.LEAVING})
    if policy.drains:
        return frozenset({Trigger.DRAIN})
    is_emptied = record is not None and record.trigger == Trigger.MID_ONLY
    if departure.closed is Closed.CORDONED or (is_emptied and policy.is_frozen):
        return shortages & {Trigger.NODE_MEMORY}
    return frozenset({Trigger.MID_ONLY}) if is_emptied else shortages


@dataclass(frozen=True, slots=True)
class _Refused:
    number: int
    """Number of the attempt."""
    pause: dt.timedelta
    until: dt.datetime


class Refusals:
    """Pods of a node that were not evicted, and their namespaces.

    Each pod waits 30 s, then twice as long each time, up to 5 minutes. Pauses alone give no other pod a turn where the
    node is rarely due, so the order is by attempts: a pod, or a namespace, comes after all that were refused earlier.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _Refused] = {}
        self._namespaces: dict[str, int] = {}
        self._attempts = 0

    def add(self, uid: str, namespace: str, now: dt.datetime, at_least: dt.timedelta = dt.timedelta()) -> dt.timedelta:
        """Record a refusal; return the pause."""
        before = self._pods.get(uid)
        pause = max(FIRST_REFUSAL if before is None else min(before.pause * 2, LONGEST_REFUSAL), at_least)
        self._attempts += 1
        self._pods[uid] = _Refused(self._attempts, pause, now + pause)
        self._namespaces[namespace] = self._attempts
        return pause

    def numbers(self, pod: Candidate) -> tuple[int, int]:
        """Return the number of the last refusal in its namespace since another had its turn, and that of the pod."""
        refused = self._pods.get(pod.uid)
        return self._namespaces.get(pod.namespace, 0), refused.number if refused else 0

    def waits(self, uid: str, now: dt.datetime) -> bool:
        """Check whether a pod has to wait."""
        return uid in self._pods and now < self._pods[uid].until

    def keep(self, uids: Collection[str]) -> None:
        """Drop the pods that are gone."""
        self._pods = {uid: refused for uid, refused in self._pods.items() if uid in uids}

    def end_turn(self) -> None:
        """Let the order of the namespaces begin again, once another one has given up a pod."""
        self._namespaces.clear()

    def clock_set_back(self, now: dt.datetime) -> None:
        """Begin every pause again."""
        self._pods = {
            uid: replace(refused, until=min(refused.until, now + refused.pause)) for uid, refused in self._pods.items()
        }


@dataclass(slots=True)
class NodeTurn:
    """State of one node; times are of the manager's clock."""

    name: str
    uid: str
    policy: EvictionPolicy
    watched: Watching = field(default_factory=Watching)
    record: MidEvictionRecord | None = None
    """The eviction annotation, as this process wrote it or as it was found."""
    last_attempt: dt.datetime = _NEVER
    not_before: dt.datetime = _NEVER
    """Earliest time of the next attempt."""
    begun: dt.datetime = _NEVER
    """Time at which the present shortages began to count."""
    refused: str = ""
    """Time in the annotation of an attempt that evicted nothing."""
    departure: Departure = STAYS
    leaves_since: dt.datetime = _NEVER
    """Time at which this process first saw that the node leaves."""
    recent: tuple[dt.datetime, ...] = ()
    """Times of the evictions of the last minute that this process requested."""
    refusals: Refusals = field(default_factory=Refusals)
    mid_pods: int = 1
    """Mid pods that stayed at the last attempt."""
    closed_until: dt.datetime = _NEVER
    """End of the pause after it could not be opened, or was closed again."""
    is_stripped: bool = False
    """Whether another client has removed the annotation."""
    blind_since: dt.datetime | None = None
    """Time since which no reconcile had a report on which an eviction may be based."""
    occupancy: Occupancy | None = None
    """Whether only Mid pods keep the node, where it may be emptied."""

    @property
    def triggers(self) -> frozenset[Trigger]:
        """Return the causes that count now.

        A scrape reads them in a thread of its own, while the annotation changes.
        """
        return causes(self.watched.lasting(self.policy), self.policy, self.record, self.departure)

    @property
    def is_emptied(self) -> bool:
        """Check whether the node was closed to be emptied for the autoscaler."""
        return self.record is not None and self.record.trigger == Trigger.MID_ONLY

    @property
    def needs_report(self) -> bool:
        """Check whether an eviction has to be based on a fresh report."""
        return not self.triggers & set(shortage.WHOLE_NODE)

    def interval(self, now: dt.datetime) -> dt.timedelta:
        """Return the pause between two evictions.

        It lets reports show the effect of one before the next, which is not needed where every Mid pod has to go. Those
        of a node that leaves are all asked to go within LEAVE_WITHIN, in order.
        """
        usual, triggers = self.policy.node_interval, self.triggers
        if Trigger.LEAVING in triggers:
            remaining = max(self.leaves_since + LEAVE_WITHIN - now, dt.timedelta())
            return min(usual / DRAIN_FACTOR, remaining / max(self.mid_pods, 1))
        return usual / DRAIN_FACTOR if Trigger.MID_ONLY in triggers else usual

    def pods_at_once(self, now: dt.datetime) -> int:
        """Return how many pods may be asked to go in one round, where those of a node that leaves have little time."""
        if Trigger.LEAVING not in self.triggers or not self.policy.evicts:
            return 1
        interval = self.interval(now)
        in_a_round = math.ceil(ROUND / interval) if interval else MOST_AT_ONCE
        return min(in_a_round, MOST_AT_ONCE, max(self.mid_pods, 1))

    def short_pause(self) -> dt.timedelta:
        """Return the pause after an attempt that evicts nothing and is not refused."""
        if Trigger.LEAVING in self.triggers and self.mid_pods:
            return NEXT_POD
        return min(NOTHING_TO_DO, self.policy.node_interval)

    def attempted(self, now: dt.datetime, pause: dt.timedelta) -> None:
        """Record an attempt, or advice, and the pause before the next one."""
        self.last_attempt, self.not_before = now, now + pause

    def was_refused(self, now: dt.datetime, pause: dt.timedelta) -> None:
        """Record that the newest attempt evicted nothing: another pod may go after this pause."""
        self.refused = self.record.time if self.record else ""
        self.recent = self.recent[:-1]
        self.attempted(now, pause)

    def last_eviction(self) -> dt.datetime | None:
        """Return the time of the last eviction that is recorded, None where it was refused.

        The annotation is written before an eviction is requested. Before one that was refused the interval was over.
        """
        if self.record is None or self.record.time == self.refused:
            return None
        return times.parse_rfc3339_or_none(self.record.time)

    def has_stayed(self, now: dt.datetime) -> bool:
        """Check whether the drain or the departure that closed the node is long over, and no report shows a shortage.

        Neither needed a report, so the end of neither waits for one: some nodes never send one that shows requests. A
        shortage needed one; where none has come for BLIND_FOR, as in static mode, none would ever open the node.
        """
        if self.record is None or self.triggers or self.watched.reports:
            return False
        if self.record.trigger not in (Trigger.DRAIN, Trigger.LEAVING):
            return self.blind_since is not None and now - self.blind_since >= BLIND_FOR
        last = times.parse_rfc3339_or_none(self.record.time)
        is_recent = last is not None and dt.timedelta() <= now - last < self.policy.readmit_after
        return not is_recent


class Reconciled(NamedTuple):
    """A reconcile of a node: what its newest report shows, its policy, its annotation."""

    name: str
    uid: str
    observation: Observation | None
    policy: EvictionPolicy
    record: MidEvictionRecord | None
    departure: Departure = STAYS
    may_be_emptied: bool = False


class Turns:
    """Nodes by name; only those that are short or closed, or were a moment ago, are kept."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeTurn] = {}
        """Those that are kept, by name."""
        self._short: dict[str, None] = {}
        self._closed: dict[str, None] = {}
        self._stayed: dict[str, tuple[dt.timedelta, dt.datetime]] = {}
        """Nodes whose removal was taken back: the pause before the next one counts, which doubles, and its end."""

    def forget(self, name: str) -> None:
        """Drop a node that is gone."""
        for nodes in (self.nodes, self._short, self._closed, self._stayed):
            nodes.pop(name, None)

    def observe(self, reconciled: Reconciled, now: dt.datetime) -> NodeTurn:
        """Record a reconcile of a node; return its state."""
        name, record = reconciled.name, reconciled.record
        turn = self.nodes.get(name)
        if turn is None or turn.uid != reconciled.uid:
            turn = self.nodes[name] = NodeTurn(name, reconciled.uid, reconciled.policy)
            self._short.pop(name, None)
            self._closed.pop(name, None)
        turn.policy = reconciled.policy
        departure = self._departure(turn, reconciled.departure, now)
        if departure.is_leaving and not turn.departure.is_leaving:
            turn.leaves_since, turn.not_before = now, _NEVER  # a pause that was made for reports does not hold
        turn.departure = departure
        is_new = record is not None and (turn.record is None or record.time > turn.record.time)
        if is_new:
            turn.record = record
        closed_by = turn.record.trigger if turn.record else ""
        turn.watched = shortage.watched(turn.watched, reconciled.observation, reconciled.policy, closed_by)
        turn.blind_since = None if reconciled.observation is not None else turn.blind_since or now
        if (last := turn.last_eviction()) is not None and (is_new or last <= now):  # else the clock was set back
            turn.not_before = max(turn.not_before, min(last, now) + turn.interval(now))
        self._sort(turn, now)
        is_needed = turn.watched.reports or name in self._closed or name in self._short or reconciled.may_be_emptied
        if not reconciled.may_be_emptied:
            turn.occupancy = None
        if not is_needed and turn.not_before <= now:
            del self.nodes[name]  # most nodes: their next shortage begins a count of its own
        return turn

    def _departure(self, turn: NodeTurn, departure: Departure, now: dt.datetime) -> Departure:
        """Return the departure that counts: an autoscaler that tries in vain must not evict all Mid pods each time."""
        pause, until = self._stayed.get(turn.name, (dt.timedelta(), _NEVER))
        if not departure.is_leaving and turn.departure.is_leaving:
            pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)
            self._stayed[turn.name] = pause, now + pause
        return STAYS if departure.is_leaving and now < until else departure

    def clock_set_back(self, now: dt.datetime) -> None:
        """Begin every pause again: none is longer than it was."""
        self._stayed = {name: (pause, min(until, now + pause)) for name, (pause, until) in self._stayed.items()}
        for turn in self.nodes.values():
            turn.last_attempt, turn.begun = min(turn.last_attempt, now), min(turn.begun, now)
            turn.leaves_since = min(turn.leaves_since, now)
            turn.blind_since = turn.blind_since and min(turn.blind_since, now)
            turn.not_before = min(turn.not_before, now + turn.interval(now))
            turn.closed_until = min(turn.closed_until, now)
            turn.refusals.clock_set_back(now)
            if turn.occupancy is not None:
                turn.occupancy.clock_set_back(now)

    def _sort(self, turn: NodeTurn, now: dt.datetime) -> None:
        if not turn.triggers:
            self._short.pop(turn.name, None)
        elif turn.name not in self._short:
            self._short[turn.name] = None
            turn.begun = now
        if turn.record is not None:
            self._closed[turn.name] = None

    def due(self, now: dt.datetime) -> list[NodeTurn]:
        """Return the nodes of which a pod may be evicted now, in order: those that leave first, emptied ones last."""
        waiting = [
            turn
            for turn in map(self.nodes.__getitem__, self._short)
            if turn.not_before <= now and (not turn.needs_report or turn.watched.is_fresh(turn.policy, now))
        ]
        return sorted(waiting, key=lambda turn: (_urgency(turn), turn.last_attempt, turn.begun, turn.name))

    def occupied(self) -> list[tuple[NodeTurn, Occupancy]]:
        """Return the nodes that may be emptied, or were closed for it; usable from any thread."""
        return [(turn, turn.occupancy) for turn in list(self.nodes.values()) if turn.occupancy is not None]

    def closed(self, turn: NodeTurn, record: MidEvictionRecord, now: dt.datetime) -> None:
        """Record the annotation that was written to a node."""
        turn.record = record
        self.nodes[turn.name] = turn  # a report that came meanwhile may have dropped it
        self._sort(turn, now)

    def reopened(self, turn: NodeTurn, now: dt.datetime) -> None:
        """Record that the annotation of a node was removed."""
        turn.record = None
        self._closed.pop(turn.name, None)
        self._sort(turn, now)

    def to_reopen(self, now: dt.datetime) -> list[NodeTurn]:
        """Return the nodes that may accept new Mid pods again.

        A node that no longer evicts has nothing to wait for; the others also wait until another eviction is permitted,
        so that a new leader always finds the time of the last one. Neither reports nor time reopen a node that leaves,
        or one that only Mid pods keep.
        """
        return [turn for name in self._closed if self._may_reopen(turn := self.nodes[name], now)]

    def stripped(self, now: dt.datetime) -> list[NodeTurn]:
        """Return the closed nodes whose annotation is to be written again now."""
        turns = [self.nodes[name] for name in self._closed]
        return [turn for turn in turns if turn.record and turn.is_stripped and now >= turn.closed_until]

    @staticmethod
    def _may_reopen(turn: NodeTurn, now: dt.datetime) -> bool:
        if now < turn.closed_until:
            return False
        if not turn.policy.evicts:
            return True
        if turn.departure.is_leaving or turn.is_emptied:
            return False
        if turn.policy.drains or now < turn.not_before:
            return False
        return turn.watched.may_readmit(turn.policy, now) or turn.has_stayed(now)

    def any_evicts(self) -> bool:
        """Check whether any node that is short or closed is to evict."""
        return any(self.nodes[name].policy.evicts for name in (*self._short, *self._closed))

    def counts(self) -> dict[str, int]:
        """Return the number of nodes by what they are short of, and of the closed ones; usable from any thread."""
        counts = {trigger.value: 0 for trigger in Trigger}
        for name in list(self._short):
            if (turn := self.nodes.get(name)) is not None:
                for trigger in turn.triggers:
                    counts[trigger.value] += 1
        return counts | {"closed": len(self._closed)}


def _urgency(turn: NodeTurn) -> int:
    return min((_URGENCY.get(trigger, 1) for trigger in turn.triggers), default=1)

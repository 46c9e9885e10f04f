"""Which nodes are due for an eviction, in which order, and which may accept new Mid pods again. Pure.

Nodes take turns: one that was never tried comes first, then the one whose last attempt is longest ago. So no node can
keep the evictions of the cluster to itself, whatever its agent reports or its tenants protect.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import NamedTuple

from api_types.kubernetes import times
from api_types.node_metric.mid_eviction import MidEvictionRecord
from manager.mid_resource.eviction import shortage
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.shortage import Observation, Trigger, Watched

_NEVER = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(slots=True)
class NodeTurn:
    """State of one node; times are of the manager's clock."""

    name: str
    uid: str
    policy: EvictionPolicy
    watched: Watched = field(default_factory=Watched)
    record: MidEvictionRecord | None = None
    """The eviction annotation, as this process wrote it or as it was found."""
    last_attempt: dt.datetime = _NEVER
    not_before: dt.datetime = _NEVER
    """Earliest time of the next attempt."""
    begun: dt.datetime = _NEVER
    """Time at which the present shortages began to count."""
    refused: str = ""
    """Time in the annotation of an attempt that evicted nothing."""

    @property
    def triggers(self) -> frozenset[Trigger]:
        """Return the shortages that count now."""
        if self.policy.drains:
            return frozenset({Trigger.DRAIN})
        return frozenset() if self.policy.mode == "off" else self.watched.lasting(self.policy)

    def attempted(self, now: dt.datetime, pause: dt.timedelta) -> None:
        """Record an attempt, or advice, and the pause before the next one."""
        self.last_attempt, self.not_before = now, now + pause

    def was_refused(self, now: dt.datetime, pause: dt.timedelta) -> None:
        """Record that the newest attempt evicted nothing: another pod may go after this pause."""
        self.refused = self.record.time if self.record else ""
        self.attempted(now, pause)

    def last_eviction(self) -> dt.datetime | None:
        """Return the time of the last eviction that is recorded, None where it was refused.

        The annotation is written before an eviction is requested. Before one that was refused the interval was over.
        """
        if self.record is None or self.record.time == self.refused:
            return None
        return times.parse_rfc3339_or_none(self.record.time)


class Reconciled(NamedTuple):
    """A reconcile of a node: what its newest report shows, its policy, its annotation."""

    name: str
    uid: str
    seen: Observation | None
    policy: EvictionPolicy
    record: MidEvictionRecord | None


class Turns:
    """Nodes by name; only those that are short or closed, or were a moment ago, are kept."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeTurn] = {}
        self._short: dict[str, None] = {}
        self._closed: dict[str, None] = {}

    def forget(self, name: str) -> None:
        """Drop a node that is gone."""
        for known in (self._nodes, self._short, self._closed):
            known.pop(name, None)

    def observe(self, given: Reconciled, now: dt.datetime) -> NodeTurn:
        """Record a reconcile of a node; return its state."""
        name, record = given.name, given.record
        turn = self._nodes.get(name)
        if turn is None or turn.uid != given.uid:
            turn = self._nodes[name] = NodeTurn(name, given.uid, given.policy)
            self._short.pop(name, None)
        turn.policy = given.policy
        turn.watched = shortage.watched(turn.watched, given.seen, given.policy)
        if record is not None and (turn.record is None or record.time > turn.record.time):
            turn.record = record
        if (last := turn.last_eviction()) is not None:
            turn.not_before = max(turn.not_before, min(last, now) + given.policy.node_interval)
        if not turn.triggers:
            self._short.pop(name, None)
        elif name not in self._short:
            self._short[name] = None
            turn.begun = now
        if turn.record is not None:
            self._closed[name] = None
        if not turn.watched.reports and name not in self._closed and name not in self._short and turn.not_before <= now:
            del self._nodes[name]  # most nodes: their next shortage begins a count of its own
        return turn

    def due(self, now: dt.datetime) -> list[NodeTurn]:
        """Return the nodes of which a pod may be evicted now, in order."""
        waiting = [
            turn
            for turn in map(self._nodes.__getitem__, self._short)
            if turn.not_before <= now and (turn.policy.drains or turn.watched.is_fresh(turn.policy, now))
        ]
        return sorted(waiting, key=lambda turn: (turn.last_attempt, turn.begun, turn.name))

    def closed(self, turn: NodeTurn, record: MidEvictionRecord) -> None:
        """Record the annotation that was written to a node."""
        turn.record = record
        self._nodes[turn.name] = turn  # a report that came meanwhile may have dropped it
        self._closed[turn.name] = None

    def reopened(self, turn: NodeTurn) -> None:
        """Record that the annotation of a node was removed."""
        turn.record = None
        self._closed.pop(turn.name, None)

    def to_reopen(self, now: dt.datetime) -> list[NodeTurn]:
        """Return the nodes that may accept new Mid pods again.

        A node that no longer evicts has nothing to wait for; the others also wait until another eviction is permitted,
        so that a new leader always finds the time of the last one.
        """
        return [turn for name in self._closed if self._may_reopen(turn := self._nodes[name], now)]

    @staticmethod
    def _may_reopen(turn: NodeTurn, now: dt.datetime) -> bool:
        if not turn.policy.evicts:
            return True
        return not turn.policy.drains and now >= turn.not_before and turn.watched.may_readmit(turn.policy, now)

    def any_evicts(self) -> bool:
        """Check whether any node that is short or closed is to evict."""
        return any(self._nodes[name].policy.evicts for name in (*self._short, *self._closed))

    def counts(self) -> dict[str, int]:
        """Return the number of nodes by what they are short of, and of the closed ones."""
        found = {trigger.value: 0 for trigger in Trigger}
        for name in self._short:
            for trigger in self._nodes[name].triggers:
                found[trigger.value] += 1
        return found | {"closed": len(self._closed)}

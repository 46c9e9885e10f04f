"""The part of the evictor that closes nodes which only Mid pods keep, and reopens them: it evicts nothing itself.

An autoscaler removes a node whose pods have another place. Mid pods have none where a backlog fills what is published,
so a node that has lost its other pods would stay for them. It is closed for new Mid pods, and those that run there are
evicted as on any other node that is due. If another pod comes, or the autoscaler does not remove the node, it opens
again; each time that the autoscaler kept it, it is left alone for twice as long, up to a day.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from api_types.node_metric.mid_eviction import MidEvictionRecord
from apiserver_client import errors, session
from manager.mid_resource.decision import Case
from manager.mid_resource.events import Event
from manager.mid_resource.eviction import planning
from manager.mid_resource.eviction import pods as pods_on_node
from manager.mid_resource.eviction.nodes import NodeTurn, Turns
from manager.mid_resource.eviction.pods import Occupancy, requested
from manager.mid_resource.eviction.policy import EvictionPolicy, empty_grace
from manager.mid_resource.eviction.records import FIX, NodeRecords, Rights
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.target import bound_pods

log = logging.getLogger(__name__)

PERIOD: Final = dt.timedelta(seconds=5)
LISTS_AT_ONCE: Final = 10
"""Pod lists within a period: two in a second, each of one node, from the apiserver's cache."""
_MOST_PRESSING: Final = 8
"""Of these lists; the others are of nodes that were listed longest ago."""
_MOST_NAMED: Final = 5
_NEVER: Final = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(eq=False)
class Emptying:
    """`autoscaler` is the one of the nodes, or `none`; `on_changed` gets a node that was closed or reopened."""

    api: session.Session
    turns: Turns
    records: NodeRecords
    rights: Rights
    autoscaler: str
    on_changed: Callable[[str], None]

    def __post_init__(self) -> None:
        self._worked: dt.datetime | None = None

    def concerns(self, case: Case, policy: EvictionPolicy, record: MidEvictionRecord | None) -> bool:
        """Check whether a node may be emptied, or was closed for it."""
        if record is not None and record.trigger == Trigger.MID_ONLY:
            return True
        return bool(empty_grace(policy, self.autoscaler)) and case.strategy.enabled and case.policy.publishes

    def observe(self, turn: NodeTurn, case: Case) -> None:
        """Take note of a reconcile of a node that may be emptied."""
        turn.occupancy = turn.occupancy or Occupancy()
        turn.occupancy.observe(case, empty_grace(turn.policy, self.autoscaler), self.autoscaler)

    def counts(self) -> dict[str, int]:
        """Return the number of nodes that only Mid pods keep, by whether they are closed; usable from any thread."""
        closed = self._closed()
        waiting = sum(state.is_waiting() for turn, state in self.turns.occupied() if turn.name not in closed)
        return {"waiting": waiting, "closed": len(closed)}

    def _closed(self) -> set[str]:
        """Return the nodes that are closed to be emptied, of whichever leader."""
        return {name for name, record in self.records.all() if record.trigger == Trigger.MID_ONLY}

    async def work(self, most: int, now: dt.datetime) -> None:
        """Close nodes that only Mid pods keep, at most so many at a time, and reopen those with other pods."""
        if self._worked is not None and dt.timedelta() <= now - self._worked < PERIOD:
            return
        self._worked = now
        closed = self._closed()
        for turn, state in self._to_list(closed, now):
            await self._list(turn, state, now)
        for turn, state in self.turns.occupied():
            if turn.name in closed and (why := await self._why_reopened(turn, state, now)):
                await self.reopen(turn, why)
        await self._close_those_due(most, now)

    def _to_list(self, closed: Collection[str], now: dt.datetime) -> list[tuple[NodeTurn, Occupancy]]:
        """Return the nodes to list now; those that Mid pods keep do not take all lists."""
        nodes = sorted(self.turns.occupied(), key=lambda node: node[1].tried or _NEVER)
        pressing = [(turn, state) for turn, state in nodes if state.is_pressing(now, is_closed=turn.name in closed)][
            :_MOST_PRESSING
        ]
        others = [(turn, state) for turn, state in nodes if turn.name not in closed and state.is_old(now)]
        return [*pressing, *(node for node in others if node not in pressing)][:LISTS_AT_ONCE]

    async def _list(self, turn: NodeTurn, state: Occupancy, now: dt.datetime) -> None:
        state.tried = now
        try:
            listed = await bound_pods(self.api, turn.name, pods_on_node.EvictablePod)
        except errors.ApiServerError as error:
            log.warning("node %s: cannot list its pods, so it is not emptied: %s", turn.name, error)
            return
        pods = pods_on_node.node_pods(listed, turn.uid, {}, (Trigger.MID_ONLY,))
        state.list_shows(pods_on_node.keeper(listed, turn.uid), pods, now)

    async def _why_reopened(self, turn: NodeTurn, state: Occupancy, now: dt.datetime) -> str:
        if why := state.why_reopened(now):
            if not (state.refusal or state.keeper):
                state.leave_alone(now)
            return why
        try:
            why = await self._why_not_allowed(state)
        except errors.ApiServerError as error:
            log.warning("node %s: cannot ask whether its pods may be evicted: %s", turn.name, error)
        if why:
            state.leave_alone(now)  # else a tenant makes the pods of others go round
        return why

    async def _close_those_due(self, most: int, now: dt.datetime) -> None:
        """Close the nodes that are due, those never given up first; one that may not be emptied takes no turn."""
        closed = self._closed()
        due = [(turn, state) for turn, state in self.turns.occupied() if turn.name not in closed and state.is_due(now)]
        due.sort(key=lambda node: (node[1].not_before or _NEVER, requested(node[1].mid_pods), node[0].name))
        slots = most - len(closed)
        for turn, state in due:
            try:
                mode = "" if turn.policy.evicts else f"midEviction.mode {turn.policy.mode}"
                why_not = mode or await self._why_not_allowed(state)
                if not why_not and slots <= 0:
                    why_not = f"it waits, because {most} nodes that were closed for it exist (emptyNodesAtOnce)"
                text = planning.mid_only(state, why_not)
                if why_not:
                    about = mode or why_not.partition(" ")[0]
                    await self.records.event_once(turn, Event("Normal", planning.MID_ONLY, text), about)
                    continue
                await self.records.close(turn, Trigger.MID_ONLY)
            except errors.ApiServerError as error:
                log.warning("node %s: cannot ask whether its pods may be evicted, or close it: %s", turn.name, error)
                continue
            slots -= 1
            state.fewest = None
            log.info("node %s: %s", turn.name, text)
            await self.records.event(turn, Event("Normal", planning.MID_ONLY_CLOSED, text))
            self.on_changed(turn.name)

    async def _why_not_allowed(self, state: Occupancy) -> str:
        """Return where the right to evict pods is missing; empty where it is not. Raises errors.ApiServerError."""
        namespaces = sorted({pod.namespace for pod in state.mid_pods})
        missing = [namespace for namespace in namespaces if not await self.rights.in_namespace(namespace)]
        return f"no right to evict in {', '.join(missing[:_MOST_NAMED])}; {FIX}" if missing else ""

    async def is_kept(self, turn: NodeTurn, bound: Iterable[pods_on_node.EvictablePod], now: dt.datetime) -> bool:
        """Reopen a closed node where a list has just shown another pod; return whether it did."""
        keeper = pods_on_node.keeper(bound, turn.uid)
        if keeper and turn.occupancy is not None:
            turn.occupancy.list_shows(keeper, pods_on_node.EvictablePods((), ()), now)
        if keeper:
            await self.reopen(turn, f"the pod {keeper} runs there")
        return bool(keeper)

    async def reopen(self, turn: NodeTurn, why: str) -> None:
        """Let a node accept new Mid pods again, and state why."""
        if await self.records.reopen(turn):
            text = f"accepts new Mid pods again: {why}"
            await self.records.event(turn, Event("Normal", planning.MID_ONLY_REOPENED, text))
            self.on_changed(turn.name)

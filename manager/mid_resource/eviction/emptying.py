"""The part of the evictor that closes nodes which Mid pods keep, and reopens them: it evicts nothing itself.

It lists the pods of a few nodes at a time, see `mid_only`. A closed node is evicted from as any other one that is due.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import times
from api_types.node_metric.mid_eviction import MidEvictionRecord
from apiserver_client import errors, objects, resources, session
from manager.mid_resource import departure
from manager.mid_resource.calculator import Target
from manager.mid_resource.case import Case
from manager.mid_resource.eviction import messages, mid_only, pod_view
from manager.mid_resource.eviction.mid_only import Choice, MidOnly, Survey
from manager.mid_resource.eviction.node_records import NodeRecords
from manager.mid_resource.eviction.pod_view import Candidate, Keeper
from manager.mid_resource.eviction.policy import EvictionPolicy, graces_of, underused_percent
from manager.mid_resource.eviction.progress import NOT_CLOSED_FOR
from manager.mid_resource.eviction.reported import Reported
from manager.mid_resource.eviction.rights import FIX, Rights
from manager.mid_resource.eviction.room import Amounts
from manager.mid_resource.eviction.shortage import EMPTIED, Trigger
from manager.mid_resource.eviction.turns import NodeTurn, Turns
from manager.mid_resource.node_events import Event

log = logging.getLogger(__name__)

PERIOD: Final = dt.timedelta(seconds=5)
LISTS_AT_ONCE: Final = 10
"""Pod lists within a period: two in a second, each of one node, from the apiserver's cache."""
_MOST_NAMED: Final = 5


class Emptying:
    """Keeps what the manager knows of the pods that keep nodes; `autoscaler` is the one of the nodes, or `none`.

    A caller sets `on_changed`, which gets a node that was closed or reopened.
    """

    def __init__(
        self, api: session.Session, *, turns: Turns, records: NodeRecords, rights: Rights, autoscaler: str
    ) -> None:
        self._api = api
        self._turns = turns
        self._records = records
        self._rights = rights
        self._autoscaler = autoscaler
        self.on_changed: Callable[[str], None] = lambda _: None
        self._survey = Survey()
        self._worked: dt.datetime | None = None
        self.forget = self._survey.forget
        self.clock_set_back = self._survey.clock_set_back

    def observe(self, case: Case, calculated: Target, policy: EvictionPolicy) -> None:
        """Take note of what the Mid controller calculated for a node."""
        if not case.strategy.enabled or not case.policy.publishes:
            self._survey.forget(case.name)
            return
        requests = case.inputs.usable.requests if case.inputs.usable else None
        before = self._survey.reported(case.name)
        prod = before.prod if before else None
        if requests is not None:
            prod = requests.prod.get(names.CPU, 0), requests.prod.get(names.MEMORY, 0)
        allocatable = node_reservation.allocatable(case.node).resources
        reported = Reported(
            uid=case.node.metadata.uid,
            policy=policy,
            graces=graces_of(policy, self._autoscaler),
            underused_percent=underused_percent(policy, self._autoscaler),
            kept_because=departure.why_kept(case.node, self._autoscaler),
            closed=case.closed,
            prod=prod,
            is_current=requests is not None,
            free=_free(calculated),
            has_mid_pods=any(line.allocated_mid for line in calculated.lines.values()),
            allocatable=(allocatable.get(names.CPU, 0), allocatable.get(names.MEMORY, 0)),
        )
        self._survey.observe(case.name, reported, case.now)

    def emptied(self) -> dict[str, MidEvictionRecord]:
        """Return the nodes that are closed to be emptied for the autoscaler, with their annotations."""
        return {name: record for name, record in self._records.all() if record.trigger in EMPTIED}

    def counts(self) -> dict[str, int]:
        """Return the number of nodes that only Mid pods keep, by whether they are closed."""
        return self._survey.counts(self.emptied())

    async def work(self, most: int, now: dt.datetime) -> None:
        """Close nodes that only Mid pods keep, at most so many at a time, and reopen those with other pods."""
        if self._worked is not None and dt.timedelta() <= now - self._worked < PERIOD:
            return
        self._worked = now
        emptied = self.emptied()
        for turn in self._turns.emptied():
            if turn.name not in emptied:
                self._turns.reopened(turn, now)  # another client has removed the annotation
        if not emptied and not self._survey.is_wanted():
            return
        await self._list(emptied, most - len(emptied), now)
        for name, record in emptied.items():
            if (reported := self._survey.reported(name)) and (why := await self._why_reopened(name, record, now)):
                await self.reopen(self._turns.known(name, reported.uid, reported.policy), why)
        await self._act_on_all(most, now)

    async def _why_reopened(self, name: str, record: MidEvictionRecord, now: dt.datetime) -> str:
        """Return why an emptied node opens again; empty where it stays closed."""
        last = times.parse_rfc3339_or_none(record.time) or now
        if why := self._survey.why_reopened(name, record.trigger, last, now):
            return why
        try:
            why = await self._why_not_allowed(self._survey.mid_pods(name))
        except errors.ApiServerError as error:
            log.warning("node %s: cannot ask whether its pods may be evicted: %s", name, error)
        if why:
            self._survey.leave_alone(name, now)  # else a tenant makes the pods of others go round
        return why

    async def _list(self, emptied: Collection[str], slots: int, now: dt.datetime) -> None:
        """List the pods of the nodes that are due; so many more may be closed."""
        for name in self._survey.due(emptied, LISTS_AT_ONCE, now, self._survey.promising(emptied, slots, now)):
            self._survey.attempted(name, now)
            reported = self._survey.reported(name)
            selector = f"spec.nodeName={name}"
            try:
                listed = await objects.list_all(
                    self._api, resources.PODS, field_selector=selector, decode=pod_view.Pod, from_cache=True
                )
            except errors.ApiServerError as error:
                log.warning("node %s: cannot list its pods, so it is not emptied: %s", name, error)
                continue
            if reported is not None:
                found = pod_view.node_pods(listed.items, reported.uid, {}, (Trigger.MID_ONLY,))
                evictable = [pod for pod in found.staying if not pod.protected]
                keepers = pod_view.keepers(listed.items, reported.uid)
                self._survey.listed(name, keepers, evictable, now, found.leaving)

    async def _act_on_all(self, most: int, now: dt.datetime) -> None:
        """Decide about each node that Mid pods keep for longer than its grace, and act.

        Those that may not be emptied are decided about apart: they take no turn and no room from those that may.
        """
        emptied = self.emptied()
        possible: list[tuple[MidOnly, str]] = []
        others: list[tuple[MidOnly, str]] = []
        for node in self._survey.mid_only(emptied, now):
            try:
                why_not = await self._why_not(node)
            except errors.ApiServerError as error:
                log.warning("node %s: cannot ask whether its pods may be evicted: %s", node.name, error)
                continue
            (others if why_not else possible).append((node, why_not))
        for nodes in (possible, others):
            reasons = {node.name: why_not for node, why_not in nodes}
            found = (node for node, _ in nodes)
            for choice in mid_only.choices(found, self._survey.rooms(emptied), most - len(emptied), now):
                try:
                    await self._act(choice, most, reasons[choice.node.name], now)
                except errors.ApiServerError as error:
                    log.warning("node %s: cannot close it to empty it: %s", choice.node.name, error)
                    self._survey.leave_alone(choice.node.name, now, NOT_CLOSED_FOR)

    async def _why_not(self, node: MidOnly) -> str:
        """Return why a node may not be emptied; empty where it may. Raises errors.ApiServerError."""
        policy = node.reported.policy
        return await self._why_not_allowed(node.mid_pods) if policy.evicts else f"midEviction.mode {policy.mode}"

    async def _act(self, choice: Choice, most: int, why_not: str, now: dt.datetime) -> None:
        """Close a node, so that its pods are evicted; or state why it stays as it is. Raises errors.ApiServerError."""
        node = choice.node
        turn = self._turns.known(node.name, node.reported.uid, node.reported.policy)
        text = messages.mid_only(choice, most, why_not)
        if why_not or not choice.step.empties:
            await self._records.event_once(turn, Event("Normal", messages.MID_ONLY, text), choice.step)
            return
        await self._records.close(turn, Trigger.UNDERUSED if node.others else Trigger.MID_ONLY)
        self._survey.closed(node.name, now)
        log.info("node %s: %s", node.name, text)
        await self._records.event(turn, Event("Normal", messages.MID_ONLY_CLOSED, text))
        self.on_changed(node.name)

    async def _why_not_allowed(self, mid_pods: Iterable[Candidate]) -> str:
        """Return where the right to evict pods is missing; empty where it is not. Raises errors.ApiServerError."""
        namespaces = sorted({pod.namespace for pod in mid_pods})
        missing = [each for each in namespaces if not await self._rights.in_namespace(each)]
        return f"no right to evict in {', '.join(missing[:_MOST_NAMED])}; {FIX}" if missing else ""

    async def is_kept(self, turn: NodeTurn, keepers: Sequence[Keeper], now: dt.datetime) -> bool:
        """Reopen an emptied node where a list has just shown a pod that ends the emptying; return whether it did."""
        trigger = turn.record.trigger if turn.record else ""
        if not (why := pod_view.kept_by(keepers, trigger)):
            return False
        self._survey.listed(turn.name, keepers, (), now)
        if trigger == Trigger.UNDERUSED:
            self._survey.leave_alone(turn.name, now)
        await self.reopen(turn, why)
        return True

    async def reopen(self, turn: NodeTurn, why: str) -> None:
        """Let a node accept new Mid pods again, and state why."""
        if await self._records.reopen(turn):
            text = f"accepts new Mid pods again: {why}"
            await self._records.event(turn, Event("Normal", messages.MID_ONLY_REOPENED, text))
            self.on_changed(turn.name)


def _free(calculated: Target) -> Amounts:
    """Return the Mid resources of a node that no pod requests; none of a node that is closed."""
    if calculated.closed:
        return 0, 0
    cpu, memory = (_free_of(calculated, mid) for mid in (names.MID_CPU, names.MID_MEMORY))
    return cpu, memory


def _free_of(calculated: Target, mid: str) -> int:
    line, value = calculated.lines.get(mid), calculated.values.get(mid)
    if line is None or value is None or line.allocated_mid is None:
        return 0
    limit = value if line.calculated is None else min(value, line.calculated)
    return max(limit - line.allocated_mid, 0)

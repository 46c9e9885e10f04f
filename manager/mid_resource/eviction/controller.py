"""The loop that evicts Mid pods, or names those that would go: choose nodes, read, choose a pod, record, evict.

Fails closed: without a fresh report that shows the shortage, without the Lease, without an answer of the apiserver,
nothing is evicted. The annotation of the node is written before the eviction is requested, so that the next leader
keeps the pause of the node and the rate of the cluster, whatever happens to this one in between.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from api_types.node_metric.mid_eviction import MidEvictionRecord
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache.store import ClusterStore
from manager.events import EventRecorder, Severity
from manager.metrics.collectors import AttemptResult
from manager.metrics.telemetry import Telemetry
from manager.mid_resource import decision
from manager.mid_resource.decision import Case
from manager.mid_resource.events import Event
from manager.mid_resource.eviction import pace, planning, policy, shortage
from manager.mid_resource.eviction import pods as pods_on_node
from manager.mid_resource.eviction.emptying import Emptying
from manager.mid_resource.eviction.nodes import NEXT_POD, ROUND, NodeTurn, Reconciled, Turns
from manager.mid_resource.eviction.pace import ClusterPace, NewlyEvicted
from manager.mid_resource.eviction.planning import EvictionPlan
from manager.mid_resource.eviction.pods import Candidate, EvictablePods
from manager.mid_resource.eviction.policy import DRAIN_FACTOR, eviction_policy
from manager.mid_resource.eviction.records import FIX, NodeRecords, Rights
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.formula import SET_BACK, Target
from manager.mid_resource.target import bound_pods
from manager.slo_config.strategy import Configuration

log = logging.getLogger(__name__)

RIGHTS_SECONDS: Final = 60.0
AT_ONCE: Final = 8
"""Nodes that are worked on in parallel."""
_MOST_NAMED: Final = 5  # namespaces in an Event


@dataclass(eq=False)
class Evictor:
    """Evicts, or advises; `clock` returns aware time, `sleep` waits between two rounds.

    `configuration` is None while none is in force. `relist` and `on_pods_changed` get the node of an evicted pod, and
    `on_right_changed` is called where the right to evict was granted or taken back.
    """

    api: session.Session
    cache: ClusterStore
    configuration: Callable[[], Configuration | None]
    rights: Rights
    recorder: EventRecorder
    telemetry: Telemetry
    clock: Callable[[], dt.datetime]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    autoscaler: str = "none"
    relist: Callable[[str], None] = lambda _: None
    on_pods_changed: Callable[[str], None] = lambda _: None
    on_right_changed: Callable[[], None] = lambda: None
    notify: Callable[[Severity, str, str], Awaitable[None]] | None = None
    """Records an Event on the configuration."""

    def __post_init__(self) -> None:
        self._turns = Turns()
        self._pace = ClusterPace()
        self._leaving_pace = ClusterPace()
        """Of the nodes that are about to be removed: their pods end anyway, and others must not wait for them."""
        self._advice_pace = ClusterPace()
        self._records = NodeRecords(
            self.api, cache=self.cache, turns=self._turns, recorder=self.recorder, telemetry=self.telemetry,
            clock=self.clock,
        )  # fmt: skip
        self._emptying = Emptying(
            self.api, turns=self._turns, records=self._records, rights=self.rights, autoscaler=self.autoscaler,
            on_changed=self.on_pods_changed,
        )  # fmt: skip
        self._evicted = NewlyEvicted()
        self._gone = NewlyEvicted()
        """Pods that were gone or replaced when they were to be evicted, by an answer that is also given for others."""
        self._is_restored = False
        self._worked: dt.datetime | None = None
        """Time of the last round."""
        self.telemetry.eviction.export(self._turns.counts, self._emptying.counts)

    def observe(self, case: Case, target: Target | None, requests_from: str) -> bool:
        """Take note of what the Mid controller calculated for a node; return whether its state is kept."""
        chosen, record = eviction_policy(case.strategy), case.record
        departure = decision.classify(case.node) if case.strategy.enabled else decision.STAYS
        observation = shortage.observe_report(case, target, requests_from) if target else None
        may_be_emptied = self._emptying.concerns(case, chosen, record)
        turn = self._turns.observe(
            Reconciled(case.name, case.node.metadata.uid, observation, chosen, record, departure, may_be_emptied),
            case.now,
        )
        turn.is_stripped = case.is_stripped
        if may_be_emptied:
            self._emptying.observe(turn, case)
        return case.name in self._turns.nodes

    def remembered(self, name: str, uid: str) -> MidEvictionRecord | None:
        """Return why this process closed a node, also where another client has removed the annotation since."""
        turn = self._turns.nodes.get(name)
        return turn.record if turn and turn.uid == uid and turn.policy.evicts else None

    def forget(self, name: str) -> None:
        """Drop the state of a node that is gone."""
        self._turns.forget(name)

    def _wants_right(self) -> bool:
        """Check whether any node is to evict: the right is not asked for otherwise."""
        configured = self.configuration()
        strategies = [configured.cluster, *(entry.strategy for entry in configured.entries)] if configured else []
        modes = (strategy.mid_eviction.mode for strategy in strategies if strategy.mid_eviction)
        return any(mode == "evict" for mode in modes) or self._turns.any_evicts()

    async def check_rights(self) -> None:
        """Ask whether pods may be evicted, which the take-back gate depends on."""
        rights = self.rights
        if not (self._wants_right() or rights.granted):  # one that was granted may be taken back
            return
        before = rights.granted
        has_changed = await rights.refresh()
        if rights.granted != before:
            log.info("the right to evict Mid pods was %s", "granted" if rights.granted else "taken back")
            self.on_right_changed()
        # again while it lasts: `koordctl status` shows the Events of the last 20 minutes
        if rights.missing and self.notify and (has_changed or self.clock().minute % 5 == 0):
            await self.notify("Warning", planning.NOT_ALLOWED, _without_right(rights.missing))
        self.telemetry.eviction.allowed.set(int(self.rights.granted))

    async def run(self) -> None:
        """Work until cancelled."""
        asked_at, wants = self.clock(), self._wants_right()
        while True:
            await self.sleep(ROUND.total_seconds())
            now, wanted_before, wants = self.clock(), wants, self._wants_right()
            try:
                is_due = not dt.timedelta() <= now - asked_at < dt.timedelta(seconds=RIGHTS_SECONDS)
                if is_due or (wants and not wanted_before):
                    asked_at = now
                    await self.check_rights()
                await self.round()
            except errors.ApiServerError as error:
                log.warning("cannot evict Mid pods: %s; retrying", error)
            except Exception:
                log.exception("cannot evict Mid pods: unexpected error; retrying")

    async def round(self) -> None:
        """Work on the nodes that are due, as far as the rate of the cluster permits, and reopen nodes."""
        now = self.clock()
        if not self._is_restored:
            for rate, of_leaving in ((self._pace, False), (self._leaving_pace, True)):
                rate.restore(self._records.evictions(of_leaving=of_leaving, now=now))  # of whichever leader
            self._is_restored = True
        if self._worked is not None and now < self._worked - SET_BACK:
            self._clock_set_back(now)
        self._worked = now
        for turn in self._turns.to_reopen(now):
            await self._records.reopen(turn)
        for turn in self._turns.stripped(now):
            await self._records.restore(turn)
        configured = self.configuration()
        most = policy.most_emptied(configured.empty_nodes_at_once if configured else None, len(self.cache.nodes))
        await self._emptying.work(most, now)
        drains, due = configured is not None and configured.emergency == "drain", self._turns.due(now)
        leaving = [turn for turn in due if Trigger.LEAVING in turn.triggers]
        await self._work_on_leaving(leaving, now)
        for rate, evicts in ((self._pace, True), (self._advice_pace, False)):
            others = [turn for turn in due if turn.policy.evicts is evicts and Trigger.LEAVING not in turn.triggers]
            await self._work_on_all(others, rate.room(self._per_minute(drains=drains), now))

    def _clock_set_back(self, now: dt.datetime) -> None:
        """Begin pauses, rates and graces again: by the times of the old clock they would last for so much longer."""
        log.warning("the clock was set back to %s: pauses and rates of evictions begin again", now)
        for part in (self._turns, self._pace, self._leaving_pace, self._advice_pace, self._evicted, self._gone):
            part.clock_set_back(now)

    async def _work_on_leaving(self, leaving: Sequence[NodeTurn], now: dt.datetime) -> None:
        """Evict a pod of each node that leaves, then more of those that have many; a drain does not change the rate.

        What takes longer than the pause between two rounds is left to the next one: other nodes have their turn.
        """
        at_once = {turn.name: turn.pods_at_once(now) for turn in leaving}
        again, done = leaving, 0
        while again and dt.timedelta() <= self.clock() - now < ROUND:
            room = self._leaving_pace.room(DRAIN_FACTOR * self._per_minute(drains=False), self.clock())
            evicted, done = await self._work_on_all(again, room), done + 1
            again = [turn for turn in evicted if at_once[turn.name] > done]

    async def _work_on_all(self, due: Sequence[NodeTurn], room: int) -> list[NodeTurn]:
        """Work on as many nodes as there is room for; return those that were evicted from."""
        evicted: list[NodeTurn] = []
        for start in range(0, min(room, len(due)), AT_ONCE):
            chunk = due[start : min(start + AT_ONCE, room)]
            results = await asyncio.gather(*(self._work_on(turn) for turn in chunk))
            evicted += [turn for turn, is_evicted in zip(chunk, results, strict=True) if is_evicted]
        return evicted

    def _per_minute(self, *, drains: bool) -> int:
        configured = self.configuration()
        per_minute = configured.evictions_per_minute if configured else None
        return policy.cluster_per_minute(per_minute, len(self.cache.nodes), drains=drains)

    async def _work_on(self, turn: NodeTurn) -> bool:
        """Evict one pod of a node, or advise it; a node that cannot be read waits. Return whether one was evicted."""
        turn.attempted(self.clock(), turn.short_pause())
        try:
            return await self._attempt(turn)
        except errors.ApiServerError as error:
            log.warning("node %s: cannot evict a Mid pod: %s", turn.name, error)
            return False

    async def _attempt(self, turn: NodeTurn) -> bool:
        chosen = await self._choose(turn)
        if chosen is None:
            return False
        plan, pods = chosen
        turn.mid_pods = len(pods.staying)
        await self._records.name_slow_pods(turn, pods)
        if not pods.staying:
            return False  # nothing is left to do there
        self.telemetry.eviction.protected.inc(len(plan.protected))
        if plan.victim is None:
            text = f"Mid pods are to be evicted and none can be: {plan.nothing}: {self._why(plan, turn)}"
            await self._records.event_once(turn, Event("Warning", planning.NO_VICTIM, text), plan.nothing)
        elif turn.policy.evicts and await self.rights.in_namespace(plan.victim.namespace):
            return await self._evict(turn, plan, plan.victim)
        else:
            await self._advise(turn, plan, plan.victim)
        return False

    async def _choose(self, turn: NodeTurn) -> tuple[EvictionPlan, EvictablePods] | None:
        """Read the report and the pods of a node again and choose a pod; None where nothing is to be done."""
        observation, triggers = turn.watched.newest, turn.triggers
        usage: dict[str, int] = {}
        if turn.needs_report:
            if observation is None or not turn.watched.is_fresh(turn.policy, self.clock()):
                return None
            full = await objects.get(self.api, resources.NODE_METRICS, turn.name, decode=shortage.FullReport)
            if fault := shortage.fault(full, observation, turn.policy.cold_start, self.clock()):
                log.info("node %s: no Mid pod is evicted: %s", turn.name, fault)
                return None
            usage = shortage.memory_of_pods(full)
        listed = await bound_pods(self.api, turn.name, pods_on_node.EvictablePod)
        if Trigger.MID_ONLY in triggers and await self._emptying.is_kept(turn, listed, self.clock()):
            return None
        gone = {*self.newly_evicted(), *self._gone.uids(self.clock())}
        pods = pods_on_node.node_pods(listed, turn.uid, usage, triggers, gone, record=turn.record)
        for namespace in {pod.namespace for pod in pods.staying}:
            self.telemetry.eviction.evicted.add(namespace, 0)
        now = self.clock()
        permitted = await self._permitted(turn, {pod.namespace for pod in pods.staying})
        turn.refusals.keep({pod.uid for pod in pods.staying})
        chosen = planning.plan(
            pods, observation, triggers, turn.policy, refused=turn.refusals.numbers,
            may_go=lambda pod: pod.namespace in permitted and not turn.refusals.waits(pod.uid, now),
        )  # fmt: skip
        return (chosen, pods) if chosen.triggers else None

    def newly_evicted(self) -> Collection[str]:
        """Return the UIDs of pods whose eviction the apiserver accepted, and a list may not show yet."""
        return self._evicted.uids(self.clock())

    async def _permitted(self, turn: NodeTurn, namespaces: set[str]) -> set[str]:
        """Return the namespaces of which pods may be chosen: all of them for advice, also where none may be evicted."""
        if not turn.policy.evicts:
            return namespaces
        allowed = {namespace for namespace in namespaces if await self.rights.in_namespace(namespace)}
        if missing := sorted(namespaces - allowed):
            event = Event("Warning", planning.NOT_ALLOWED, _without_right(missing))
            await self._records.event_once(turn, event, ",".join(missing))
        return allowed or namespaces

    async def _advise(self, turn: NodeTurn, plan: EvictionPlan, victim: Candidate) -> None:
        now = self.clock()
        turn.attempted(now, turn.policy.node_interval)
        self._advice_pace.attempted(now)
        self._count(plan, AttemptResult.ADVISED)
        text = f"would evict the Mid pod {victim.key}: {self._why(plan, turn)}"
        await self._records.event_once(turn, Event("Normal", planning.ADVISED, text), victim.uid)

    async def _evict(self, turn: NodeTurn, plan: EvictionPlan, victim: Candidate) -> bool:
        """Record the eviction on the node, then request it; return whether the apiserver accepted it."""
        now = self.clock()
        cause = Trigger.NODE_MEMORY if Trigger.NODE_MEMORY in plan.triggers else plan.triggers[0]
        await self._records.close(turn, cause, pod=victim.key, uid=victim.uid)
        self._pace_for(turn).attempted(now)
        turn.attempted(now, turn.interval(now))
        try:
            with self.telemetry.write("eviction"):
                await objects.evict(self.api, victim.name, namespace=victim.namespace, uid=victim.uid)
        except errors.ApiServerError as error:
            await self._not_evicted(turn, plan, victim, error, now)
            return False
        self._count(plan, AttemptResult.EVICTED)
        self.telemetry.eviction.evicted.add(victim.namespace, 1)
        if turn.needs_report:  # else every pod has to go soon, so what refuses is asked last
            turn.refusals.end_turn()
        self._evicted.add(victim.uid, now)
        self._pods_changed(turn.name)
        reopens = planning.reopens(turn.policy, turn.record.trigger if turn.record else cause)
        text = f"evicted the Mid pod {victim.key}: {self._why(plan, turn)}; {reopens}"
        await self._records.event(turn, Event("Warning", planning.EVICTED, text))
        about = Subject(resources.PODS, victim.name, victim.uid, namespace=victim.namespace)
        await self.recorder.event(
            about, "Warning", planning.EVICTED, f"evicted from {turn.name}: {self._why(plan, turn)}"
        )
        return True

    async def _not_evicted(
        self, turn: NodeTurn, plan: EvictionPlan, victim: Candidate, error: errors.ApiServerError, at: dt.datetime
    ) -> None:
        result = pace.classify(error)
        if result is AttemptResult.FORBIDDEN and not await self.rights.lost(victim.namespace):
            result = AttemptResult.REFUSED
        self._count(plan, result)
        log.warning("node %s: did not evict %s (%s): %s", turn.name, victim.key, result, error)
        now = self.clock()
        pause_asked_for = dt.timedelta(seconds=error.retry_after_seconds or 0.0)
        if result is AttemptResult.FAILED:  # it may be evicted: the pause of the node and the rate of the cluster hold
            turn.attempted(now, max(turn.interval(now), pause_asked_for))
        else:
            self._pace_for(turn).refused(at)
            turn.was_refused(now, max(min(NEXT_POD, turn.interval(now)), pause_asked_for))
        match result:
            case AttemptResult.GONE:
                self._gone.add(victim.uid, now)
                self._pods_changed(turn.name)
            case AttemptResult.REFUSED | AttemptResult.FAILED:
                if result is AttemptResult.FAILED:
                    self._pods_changed(turn.name)
                pause = turn.refusals.add(victim.uid, victim.namespace, now, pause_asked_for)
                was = "was not evicted" if result is AttemptResult.REFUSED else "may still run"
                text = (
                    f"the Mid pod {victim.key} {was}, tried again in {pause.total_seconds():g} s at the "
                    f"earliest: {error}; {self._why(plan, turn)}"
                )
                await self._records.event_once(turn, Event("Warning", planning.REFUSED, text), victim.uid)

    def _pods_changed(self, name: str) -> None:
        """List the pods of a node again, so that its room is taken back before the next report."""
        self.relist(name)
        self.on_pods_changed(name)

    def _pace_for(self, turn: NodeTurn) -> ClusterPace:
        return self._leaving_pace if Trigger.LEAVING in turn.triggers else self._pace

    def _count(self, plan: EvictionPlan, result: AttemptResult) -> None:
        self.telemetry.eviction.attempts.labels(plan.triggers[0], result).inc()

    def _why(self, plan: EvictionPlan, turn: NodeTurn) -> str:
        return planning.why(plan, turn.watched.newest, turn.watched.since, turn.departure)


def _without_right(namespaces: Sequence[str]) -> str:
    return (
        f"mode evict without the right to create pods/eviction in {', '.join(namespaces[:_MOST_NAMED])}: Mid pods "
        f"there are not evicted; {FIX}"
    )

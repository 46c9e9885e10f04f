"""The loop that evicts Mid pods, or names those that would go: choose nodes, read, choose a pod, record, evict.

Fails closed: without a fresh report that shows the shortage, without the Lease, without an answer of the apiserver,
nothing is evicted. The annotation of the node is written before the eviction is requested, so that the next leader
keeps the pause of the node and the rate of the cluster, whatever happens to this one in between.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

from api_types import names
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_eviction
from api_types.node_metric.mid_eviction import MidEvictionRecord
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache.store import ClusterStore
from manager.events.recorder import EventRecorder
from manager.metrics.eviction import Result
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.calculator import Target
from manager.mid_resource.case import Case
from manager.mid_resource.eviction import messages, planning, pod_view, policy, report
from manager.mid_resource.eviction.pace import ClusterPace, Refusals
from manager.mid_resource.eviction.planning import Plan
from manager.mid_resource.eviction.pod_view import Candidate, NodePods
from manager.mid_resource.eviction.policy import eviction_policy
from manager.mid_resource.eviction.rights import FIX, Rights
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.eviction.turns import NodeTurn, Reconciled, Turns
from manager.mid_resource.node_events import Event
from manager.slo_config.strategy import Configuration

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
RIGHTS_SECONDS: Final = 60.0
AT_ONCE: Final = 8
"""Nodes that are worked on in parallel."""
NOTHING_TO_DO: Final = dt.timedelta(seconds=30)
"""Pause of a node of which no pod can go, or whose pods cannot be read."""
NEXT_POD: Final = dt.timedelta(seconds=10)
"""Pause of a node after a refusal. The pod that was refused waits longer, so another one is next."""
REPORTED_AGAIN: Final = dt.timedelta(hours=1)
"""Time after which the same advice is an Event again."""
SLOW_AFTER: Final = dt.timedelta(minutes=10)
"""Time after which a pod that still terminates is named."""
_MOST_REMEMBERED: Final = 20_000
_MOST_NAMED: Final = 5  # namespaces in an Event
_DISRUPTION_BUDGET: Final = "DisruptionBudget"


class Evictor:
    """Evicts, or advises; `clock` returns aware time, `sleep` waits between two rounds.

    `configuration` is None while none is in force. A caller sets `relist` and `on_pods_changed`, which get the node of
    an evicted pod, and `on_right_changed`, called where the right to evict was granted or taken back.
    """

    def __init__(
        self,
        api: session.Session,
        *,
        cache: ClusterStore,
        configuration: Callable[[], Configuration | None],
        rights: Rights,
        recorder: EventRecorder,
        telemetry: Telemetry,
        clock: Callable[[], dt.datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._cache = cache
        self._configuration = configuration
        self._rights = rights
        self._recorder = recorder
        self._telemetry = telemetry
        self._clock = clock
        self.relist: Callable[[str], None] = lambda _: None
        self.on_pods_changed: Callable[[str], None] = lambda _: None
        self.on_right_changed: Callable[[], None] = lambda: None
        self._sleep = sleep
        self._turns = Turns()
        self._pace = ClusterPace()
        self._refusals = Refusals()
        self._evicted: OrderedDict[str, dt.datetime] = OrderedDict()
        """UIDs of pods whose eviction was accepted: a list from a cache may not show it yet."""
        self._reported: OrderedDict[tuple[str, str, str], dt.datetime] = OrderedDict()
        """(UID of the node, reason of an Event, its subject) -> time of that Event."""
        self._is_restored = False
        telemetry.eviction.export(self._turns.counts)

    def observe(self, case: Case, calculated: Target, requests_from: str) -> None:
        """Take note of what the Mid controller calculated for a node."""
        seen = report.observation(case, calculated, requests_from)
        record, found = mid_eviction.of(case.node), eviction_policy(case.strategy)
        self._turns.observe(Reconciled(case.name, case.node.metadata.uid, seen, found, record), case.now)

    def forget(self, name: str) -> None:
        """Drop the state of a node that is gone."""
        self._turns.forget(name)

    def may_evict(self) -> bool:
        """Return whether the manager may evict where it is to have the right, for the take-back gate."""
        return self._rights.everywhere

    def _wants_right(self) -> bool:
        """Check whether any node is to evict: the right is not asked for otherwise."""
        configured = self._configuration()
        strategies = [configured.cluster, *(entry.strategy for entry in configured.entries)] if configured else []
        modes = (each.mid_eviction.mode for each in strategies if each.mid_eviction)
        return any(mode == "evict" for mode in modes) or self._turns.any_evicts()

    async def check_rights(self) -> None:
        """Ask whether pods may be evicted, which the take-back gate depends on."""
        if not self._wants_right():
            return
        if await self._rights.refresh():
            log.info("the right to evict Mid pods was %s", "granted" if self._rights.everywhere else "taken back")
            self.on_right_changed()
        self._telemetry.eviction.allowed.set(int(self._rights.everywhere))

    async def run(self) -> None:
        """Work until cancelled."""
        asked, wanted = self._clock(), self._wants_right()
        while True:
            await self._sleep(TICK_SECONDS)
            now, wanted_before, wanted = self._clock(), wanted, self._wants_right()
            try:
                is_due = not dt.timedelta() <= now - asked < dt.timedelta(seconds=RIGHTS_SECONDS)
                if is_due or (wanted and not wanted_before):
                    asked = now
                    await self.check_rights()
                await self.round()
            except errors.ApiServerError as error:
                log.warning("cannot evict Mid pods: %s; retrying", error)
            except Exception:
                log.exception("cannot evict Mid pods: unexpected error; retrying")

    async def round(self) -> None:
        """Work on the nodes that are due, as far as the rate of the cluster permits, and reopen nodes."""
        now = self._clock()
        if not self._is_restored:
            self._pace.restore(time for time in self._recorded() if time <= now)
            self._is_restored = True
        for turn in self._turns.to_reopen(now):
            await self._reopen(turn)
        due = self._turns.due(now)
        if not due:
            return
        room = self._pace.room(self._per_minute(), now)
        for start in range(0, min(room, len(due)), AT_ONCE):
            await asyncio.gather(*(self._work_on(turn) for turn in due[start : min(start + AT_ONCE, room)]))

    def _recorded(self) -> Iterator[dt.datetime]:
        """Yield the time of the last eviction on each node, of whichever leader."""
        for name in self._cache.nodes.names():
            node = self._cache.nodes.get(name)
            record = mid_eviction.of(node) if node else None
            time = times.parse_rfc3339_or_none(record.time if record else None)
            if time is not None:
                yield time

    def _per_minute(self) -> int:
        configured = self._configuration()
        return policy.cluster_per_minute(
            configured.evictions_per_minute if configured else None,
            len(self._cache.nodes),
            drains=configured is not None and configured.emergency == "drain",
        )

    async def _work_on(self, turn: NodeTurn) -> None:
        """Evict one pod of a node, or advise it; a node that cannot be read waits."""
        turn.attempted(self._clock(), _short_pause(turn))
        try:
            await self._attempt(turn)
        except errors.ApiServerError as error:
            log.warning("node %s: cannot evict a Mid pod: %s", turn.name, error)

    async def _attempt(self, turn: NodeTurn) -> None:
        chosen = await self._choose(turn)
        if chosen is None:
            return
        plan, found = chosen
        await self._name_slow_pods(turn, found)
        self._telemetry.eviction.count_protected(len(plan.protected))
        if plan.victim is None:
            text = f"Mid pods are to be evicted and none can be: {plan.nothing}: {self._why(plan, turn)}"
            await self._report(turn, Event("Warning", messages.NO_VICTIM, text), plan.nothing)
        elif turn.policy.evicts and await self._rights.in_namespace(plan.victim.namespace):
            await self._evict(turn, plan, plan.victim)
        else:
            await self._advise(turn, plan, plan.victim)

    async def _choose(self, turn: NodeTurn) -> tuple[Plan, NodePods] | None:
        """Read the report and the pods of a node again and choose a pod; None where nothing is to be done."""
        seen, triggers = turn.watched.newest, turn.triggers
        usage: dict[str, int] = {}
        if Trigger.DRAIN not in triggers:
            if seen is None or not turn.watched.is_fresh(turn.policy, self._clock()):
                return None
            full = await objects.get(self._api, resources.NODE_METRICS, turn.name, decode=report.FullReport)
            if fault := report.fault(full, seen, turn.policy.cold_start, self._clock()):
                log.info("node %s: no Mid pod is evicted: %s", turn.name, fault)
                return None
            usage = report.memory_of_pods(full)
        listed = await objects.list_all(
            self._api, resources.PODS, field_selector=f"spec.nodeName={turn.name}", decode=pod_view.Pod, from_cache=True
        )
        found = pod_view.node_pods(listed.items, turn.uid, usage, triggers, self._evicted)
        for namespace in {pod.namespace for pod in found.staying}:
            self._telemetry.eviction.evicted.add(namespace, 0)
        now = self._clock()
        permitted = await self._permitted(turn, {pod.namespace for pod in found.staying})
        chosen = planning.plan(
            found,
            seen,
            triggers,
            turn.policy,
            lambda pod: pod.namespace in permitted and not self._refusals.waits(pod.uid, now),
        )
        return (chosen, found) if chosen.triggers else None

    async def _permitted(self, turn: NodeTurn, namespaces: set[str]) -> set[str]:
        """Return the namespaces of which pods may be chosen: all of them for advice, also where none may be evicted."""
        if not turn.policy.evicts:
            return namespaces
        allowed = {each for each in namespaces if await self._rights.in_namespace(each)}
        if missing := sorted(namespaces - allowed):
            text = (
                f"mode evict without the right to create pods/eviction in {', '.join(missing[:_MOST_NAMED])}: Mid pods "
                f"there are not evicted; {FIX}"
            )
            await self._report(turn, Event("Warning", messages.NOT_ALLOWED, text), ",".join(missing))
        return allowed or namespaces

    async def _advise(self, turn: NodeTurn, plan: Plan, victim: Candidate) -> None:
        now = self._clock()
        turn.attempted(now, turn.policy.node_interval)
        self._count(plan, Result.ADVISED)
        text = f"would evict the Mid pod {victim.key}: {self._why(plan, turn)}"
        await self._report(turn, Event("Normal", messages.ADVISED, text), victim.uid)

    async def _evict(self, turn: NodeTurn, plan: Plan, victim: Candidate) -> None:
        """Record the eviction on the node, then request it."""
        now = self._clock()
        await self._record(turn, plan, victim, now)
        self._pace.attempted(now)
        turn.attempted(now, turn.policy.node_interval)
        try:
            with self._telemetry.write("eviction"):
                await objects.evict(self._api, victim.name, namespace=victim.namespace, uid=victim.uid)
        except errors.ApiServerError as error:
            await self._not_evicted(turn, plan, victim, error, now)
            return
        self._count(plan, Result.EVICTED)
        self._telemetry.eviction.evicted.add(victim.namespace, 1)
        self._refusals.forget(victim.uid)
        _remember(self._evicted, victim.uid, now)
        self.relist(turn.name)
        self.on_pods_changed(turn.name)
        text = f"evicted the Mid pod {victim.key}: {self._why(plan, turn)}; {messages.reopens(turn.policy)}"
        await self._recorder.event(Subject(resources.NODES, turn.name, turn.uid), "Warning", messages.EVICTED, text)
        about = Subject(resources.PODS, victim.name, victim.uid, namespace=victim.namespace)
        await self._recorder.event(
            about, "Warning", messages.EVICTED, f"evicted from {turn.name}: {self._why(plan, turn)}"
        )

    async def _not_evicted(
        self, turn: NodeTurn, plan: Plan, victim: Candidate, error: errors.ApiServerError, at: dt.datetime
    ) -> None:
        """Draw the consequences of an eviction that the apiserver did not confirm."""
        result = _result_of(error)
        self._count(plan, result)
        log.warning("node %s: did not evict %s (%s): %s", turn.name, victim.key, result, error)
        if result is Result.FAILED and not isinstance(error, errors.Throttled):
            return  # it may have been evicted: the pause of the node and the rate of the cluster hold
        self._pace.refused(at)
        now = self._clock()
        asked = dt.timedelta(seconds=error.retry_after_seconds or 0.0)
        turn.was_refused(now, max(min(NEXT_POD, turn.policy.node_interval), asked))
        match result:
            case Result.GONE:
                _remember(self._evicted, victim.uid, now)
            case Result.FORBIDDEN:
                self._rights.lost(victim.namespace)
            case Result.REFUSED:
                pause = self._refusals.add(victim.uid, now, asked)
                text = (
                    f"the Mid pod {victim.key} was not evicted, tried again in {pause.total_seconds():g} s at the "
                    f"earliest: {error}; {self._why(plan, turn)}"
                )
                await self._report(turn, Event("Warning", messages.REFUSED, text), victim.uid)

    async def _record(self, turn: NodeTurn, plan: Plan, victim: Candidate, now: dt.datetime) -> None:
        """Write the annotation of a node. Raises errors.ApiServerError: then nothing may be evicted."""
        time = times.format_rfc3339(now)
        record = MidEvictionRecord(
            time=time,
            since=turn.record.since if turn.record else time,
            pod=victim.key,
            uid=victim.uid,
            trigger=plan.triggers[0],
        )
        await self._annotate(turn, mid_eviction.encode(record))
        self._turns.closed(turn, record)

    async def _reopen(self, turn: NodeTurn) -> None:
        """Let a node accept new Mid pods again."""
        try:
            await self._annotate(turn, None)
        except errors.ApiServerError as error:
            log.warning("node %s: cannot remove the annotation %s: %s", turn.name, names.ANNOTATION_MID_EVICTION, error)
        else:
            log.info("node %s: accepts new Mid pods again", turn.name)
            self._turns.reopened(turn)

    async def _annotate(self, turn: NodeTurn, text: str | None) -> None:
        body = {"metadata": {"uid": turn.uid, "annotations": {names.ANNOTATION_MID_EVICTION: text}}}
        with self._telemetry.write("node_eviction"):
            seen = await objects.merge_patch_status(self._api, resources.NODES, turn.name, body, decode=pods.Node)
        self._cache.nodes.update(seen)

    async def _name_slow_pods(self, turn: NodeTurn, found: NodePods) -> None:
        """Name pods that count as freed and still run: a long grace period keeps their resources from Prod."""
        now = self._clock()
        for pod in found.leaving:
            if pod.leaving_since is not None and now - pod.leaving_since > SLOW_AFTER:
                text = (
                    f"the Mid pod {pod.key} terminates since {times.format_rfc3339(pod.leaving_since)} and still runs; "
                    "its resources count as freed, so no other pod goes in its place"
                )
                await self._report(turn, Event("Warning", messages.SLOW, text), pod.uid)

    async def _report(self, turn: NodeTurn, event: Event, about: str) -> None:
        """Record an Event on a node, once an hour for the same subject."""
        now, key = self._clock(), (turn.uid, event.reason, about)
        last = self._reported.get(key)
        if last is None or now - last >= REPORTED_AGAIN:
            _remember(self._reported, key, now)
            await self._recorder.event(Subject(resources.NODES, turn.name, turn.uid), *event)

    def _count(self, plan: Plan, result: Result) -> None:
        self._telemetry.eviction.count(plan.triggers[0], result)

    def _why(self, plan: Plan, turn: NodeTurn) -> str:
        return messages.why(plan, turn.watched.newest, turn.watched.since)


def _short_pause(turn: NodeTurn) -> dt.timedelta:
    return min(NOTHING_TO_DO, turn.policy.node_interval)


_Key = TypeVar("_Key")


def _remember(known: OrderedDict[_Key, dt.datetime], key: _Key, now: dt.datetime) -> None:
    known.pop(key, None)
    known[key] = now
    if len(known) > _MOST_REMEMBERED:
        known.popitem(last=False)


def _result_of(error: errors.ApiServerError) -> Result:
    """Return what an error of the Eviction API means."""
    match error:
        case errors.NotFound() | errors.Conflict():
            return Result.GONE
        case errors.Forbidden():
            return Result.FORBIDDEN
        case errors.Throttled() if any(cause.reason == _DISRUPTION_BUDGET for cause in error.causes):
            return Result.REFUSED
        case errors.Throttled():
            return Result.FAILED
        case errors.StatusError(status=500 | 400 | 422):
            return Result.REFUSED  # 500: more than one budget for the pod
    return Result.FAILED

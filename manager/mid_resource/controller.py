"""Controller of one node's Mid resources: gather the inputs, decide, calculate, compare, patch."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_status
from api_types.node_metric.mid_report import MidReport
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache import store
from manager.events import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.mid_resource import decision, events, formula, patch
from manager.mid_resource.decision import Action, Case, DecisionInputs, LastSamples
from manager.mid_resource.formula import Target
from manager.mid_resource.patch import REVERTS_REPORTED_FROM, PatchReason, WriteTurn
from manager.mid_resource.reasons import RESERVATION_IGNORED, Reason, Status
from manager.mid_resource.target import MidNodeState, Targets
from manager.settings import ManagerSettings
from manager.slo_config.strategy import NodeStrategy, unconfigured

log = logging.getLogger(__name__)

_REQUEUE_SLACK: Final = 1.0  # seconds after a deadline, so that the reconcile comes after it and not on it


class MidController:
    """Keeps no state that a new leader could not restore; `clock` returns aware time.

    `observe` gets each case, its target, and the source of the requests in it. `newly_evicted` returns the UIDs of pods
    that leave although a list may not show it yet.
    """

    def __init__(
        self,
        api: session.Session,
        *,
        cache: store.ClusterStore,
        settings: ManagerSettings,
        recorder: EventRecorder,
        telemetry: Telemetry,
        clock: Callable[[], dt.datetime],
        observe: Callable[[Case, Target, str], None] = lambda *_: None,
        newly_evicted: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._api = api
        self._cache = cache
        self._observe = observe
        self._settings = settings
        self._recorder = recorder
        self._telemetry = telemetry
        self._clock = clock
        self._targets = Targets(api, dt.timedelta(seconds=settings.withdrawal_check_seconds), newly_evicted)
        self._nodes: dict[str, MidNodeState] = {}

    def forget(self, name: str) -> None:
        """Drop the state of a node that is gone."""
        self._nodes.pop(name, None)
        self._telemetry.forget_node(name)

    def relist(self, name: str) -> None:
        """List the pods of a node again at its next reconcile: one of them was evicted."""
        if (state := self._nodes.get(name)) is not None:
            state.listed = None

    def _state(self, node: store.StoredNode) -> MidNodeState:
        state = self._nodes.get(node.metadata.name)
        if state is None or state.uid != node.metadata.uid:
            state = self._nodes[node.metadata.name] = MidNodeState(node.metadata.uid)
        return state

    def needs_withdrawal(self, name: str, strategy: NodeStrategy) -> bool:
        """Check whether a node publishes Mid resources that are to be withdrawn; False once they are."""
        node = self._cache.nodes.get(name)
        if node is None or not any(mid in (node.status.allocatable or {}) for mid in names.MID_RESOURCES):
            return False
        if node.mid_status is not None and node.mid_status.status == Status.WITHDRAWN:
            return False
        if node.mid_status is None and not decision.mid_policy(strategy).publishes:
            return False
        gathered = self._gather(node, self._cache.node_metrics.get(name), strategy)
        return decision.decide(gathered, self._clock()).action is Action.WITHDRAW

    async def without_configuration(self, name: str) -> float | None:
        """Keep a node as it is while no usable configuration was read, until its sample is too old by the default.

        Return the seconds after which time alone requires another reconcile. Raises ApiServerError.
        """
        node = self._cache.nodes.get(name)
        if node is None:
            return None
        strategy = unconfigured()
        decided = decision.decide(self._gather(node, self._cache.node_metrics.get(name), strategy), self._clock())
        if decided.action is Action.WITHDRAW and not formula.published_on(node).is_empty():
            return await self.reconcile(name, strategy)
        self._telemetry.show_node(name, Reason.NO_CONFIGURATION, self._published(name))
        if decided.changes_at is None:
            return None
        return max((decided.changes_at - self._clock()).total_seconds(), 0.0) + _REQUEUE_SLACK

    async def reconcile(self, name: str, strategy: NodeStrategy) -> float | None:
        """Reconcile a node; return the seconds after which time alone requires another one. Raises ApiServerError."""
        node = self._cache.nodes.get(name)
        if node is None:
            return None
        if not _has_resources(node):
            self._telemetry.show_node(name, Reason.NODE_WITHOUT_RESOURCES, self._published(name))
            return None
        state = self._state(node)
        case = self._case(state, node, strategy)
        target, requests_from = await self._targets.make(case, state)
        self._observe(case, target, requests_from)
        if case.decision.action is not Action.KEEP:
            self._telemetry.show_mid_target(name, target.values, target.lines)
        if case.is_shadow:
            self._telemetry.show_node(name, target.reason, self._published(name))
            return self._requeue_seconds(case, target, written_now=False)
        reason = patch.patch_reason(
            target,
            case.decision.action,
            case.published,
            case.written,
            threshold=strategy.strategy.resource_diff_threshold or 0.0,
            refresh_period=case.refresh_period,
            now=case.now,
        )
        if reason is None and _last_sample_is_unwritten(case):
            reason = PatchReason.EXPLANATION
        turn = WriteTurn()
        if reason is not None:
            turn = state.pace.turn(node, case.now, withdraws=case.decision.action is Action.WITHDRAW)
            if not turn.wait_seconds:
                await self._write(case, state, target, requests_from, reason)
        written = reason is not None and not turn.wait_seconds
        self._telemetry.show_node(name, target.reason, self._published(name))
        await self._record_events(case, state, target, written=written)
        await self._report_revert(case, turn)
        await self._report_clock(case, state)
        return turn.wait_seconds or self._requeue_seconds(case, target, written_now=written)

    async def _report_clock(self, case: Case, state: MidNodeState) -> None:
        """Name a node whose clock is wrong, once until it is right again."""
        fault = case.inputs.clock_fault
        self._telemetry.show_clock(case.name, is_wrong=bool(fault))
        if fault and not state.is_clock_reported:
            await self._recorder.event(_subject(case), *events.clock_event(fault))
        state.is_clock_reported = bool(fault)

    async def _report_revert(self, case: Case, turn: WriteTurn) -> None:
        """Count a revert, and record an Event about a series of them."""
        if not turn.is_new_revert:
            return
        self._telemetry.reverts.inc()
        if turn.reverts >= REVERTS_REPORTED_FROM:
            # after a write of its own, the manager itself is the last writer that the apiserver has recorded
            writer = await events.other_writer(self._api, case.name) if turn.wait_seconds else events.UNKNOWN_WRITER
            await self._recorder.event(_subject(case), *events.revert_event(writer))

    def _published(self, name: str) -> Mapping[str, int]:
        node = self._cache.nodes.get(name)
        return formula.published_on(node).allocatable if node else {}

    def _case(self, state: MidNodeState, node: store.StoredNode, strategy: NodeStrategy) -> Case:
        name = node.metadata.name
        metric, now = self._cache.node_metrics.get(name), self._clock()
        gathered = self._gather(node, metric, strategy)
        decided = decision.decide(gathered, now)
        if decided.action is Action.CALCULATE and (sample := gathered.sample_time) is not None:
            predicts = gathered.usable is not None and gathered.usable.has_prediction()
            state.last_samples = LastSamples(sample, sample if predicts else state.last_samples.prediction)
            self._telemetry.show_sample(name, sample, now)
        policy = decision.mid_policy(strategy)
        if self._settings.autoscaling != "none" and _never_predicted(decided, gathered):
            policy = dataclasses.replace(policy, unallocated_percent=0)
        return Case(
            name=name,
            node=node,
            report=(metric.status if metric else None) or MidReport(),
            strategy=strategy,
            policy=policy,
            published=formula.published_on(node),
            inputs=gathered,
            decision=decided,
            now=now,
        )

    def _gather(
        self, node: store.StoredNode, metric: store.StoredNodeMetric | None, strategy: NodeStrategy
    ) -> DecisionInputs:
        return decision.gather(
            node,
            metric,
            decision.mid_policy(strategy),
            enabled=strategy.enabled,
            degrade_after=decision.degrade_time(strategy.strategy),
            last=self._state(node).last_samples,
        )

    async def _write(
        self, case: Case, state: MidNodeState, target: Target, requests_from: str, reason: PatchReason
    ) -> None:
        prediction, last_usable = case.inputs.last_prediction, None
        match case.decision.action:
            case Action.CALCULATE:
                sample = case.inputs.sample_time
                if case.inputs.usable is not None and case.inputs.usable.has_prediction():
                    prediction = sample
            case Action.KEEP:
                sample = times.parse_rfc3339_or_none(case.written.sample if case.written else None)
                last_usable = case.inputs.last_usable
            case Action.WITHDRAW:
                sample = prediction = None
        status = patch.make_status(
            target.reason,
            case.now,
            detail=_detail(case),
            sample=sample,
            last_usable=last_usable if last_usable != sample else None,
            prediction=prediction,
            floor_before=target.floor_before,
            closed=target.closed.value,
            requests_from=requests_from,
            lines=target.lines,
            before=case.written,
        )
        level = logging.DEBUG if reason is PatchReason.REFRESH else logging.INFO
        log.log(
            level,
            "node %s: writing Mid resources (%s): %s (%s, %s)",
            *(case.name, reason.value, dict(target.values), target.reason, status.detail),
        )
        body = patch.node_patch(case.node, target, status)
        await self._patch(case.node, state, body, withdraws=case.decision.action is Action.WITHDRAW)

    async def _patch(
        self, node: store.StoredNode, state: MidNodeState, body: Mapping[str, Any], *, withdraws: bool
    ) -> None:
        """Patch the status of a node. The apiserver rejects the patch where the node was recreated meanwhile."""
        name = node.metadata.name
        try:
            with self._telemetry.write("node_status"):
                patched = await objects.merge_patch_status(self._api, resources.NODES, name, body, decode=pods.Node)
        except errors.NotFound:
            self._cache.nodes.remove(name, node.metadata.uid)
        else:
            if self._cache.nodes.has(patched):
                self._cache.nodes.update(patched)
            state.pace.written(body, self._clock(), withdraws=withdraws)

    async def _record_events(self, case: Case, state: MidNodeState, target: Target, *, written: bool) -> None:
        """Record an Event on the node for a reason that an operator needs to know, and for a large fall."""
        before = state.last_reason
        if before is None:
            before = case.written.reason if case.written else ""
        state.last_reason = target.reason
        if event := events.reason_event(before, target, case.published, _detail(case)):
            await self._recorder.event(_subject(case), *event)
        if written and (event := events.fall_event(target, case.published)):
            await self._recorder.event(_subject(case), *event)

    def _requeue_seconds(self, case: Case, target: Target, *, written_now: bool) -> float | None:
        if case.decision.action is Action.WITHDRAW:
            return None if target.removes_all() else self._settings.withdrawal_check_seconds + _REQUEUE_SLACK
        deadlines = [case.decision.changes_at] if case.decision.changes_at else []
        last_write = (
            case.now if written_now else times.parse_rfc3339_or_none(case.written.time if case.written else None)
        )
        if last_write is not None and not target.removes_all():
            deadlines.append(last_write + case.refresh_period)
        if not deadlines:
            return None
        return max((min(deadlines) - case.now).total_seconds(), 0.0) + _REQUEUE_SLACK


def _subject(case: Case) -> Subject:
    return Subject(resources.NODES, case.name, case.node.metadata.uid)


def _detail(case: Case) -> str:
    """Return the detail of the decision, and the fault of a reservation that a value was calculated without."""
    details = [case.decision.detail] if case.decision.detail else []
    if case.strategy.enabled and (departure := decision.classify(case.node)).closed:
        details.append(f"{departure.closed}: {departure.cause}")
    if case.decision.action is Action.CALCULATE:
        problems = node_reservation.annotated(pods.annotation_map(case.node.metadata)).problems
        details += [f"{RESERVATION_IGNORED}: {problem}" for problem in problems]
    return "; ".join(details)


def _never_predicted(decided: decision.Decision, gathered: DecisionInputs) -> bool:
    """Check whether a node has had no prediction yet: beside an autoscaler a new node offers nothing before that."""
    return decided.reason is Reason.CALCULATED_WITHOUT_PREDICTION and gathered.last_prediction is None


def _last_sample_is_unwritten(case: Case) -> bool:
    """Check whether values are kept whose time a restarted manager could not know: it would end them too early."""
    last = case.inputs.last_usable
    if case.decision.action is not Action.KEEP or last is None or case.published.is_empty():
        return False
    return times.format_rfc3339(last) != mid_status.last_usable(case.written)


def _has_resources(node: pods.Node) -> bool:
    """Check whether the kubelet has reported cpu and memory; before that no resource is written to the node."""
    lists = (node.status.capacity, node.status.allocatable)
    return all(native in (amounts or {}) for native in (names.CPU, names.MEMORY) for amounts in lists)

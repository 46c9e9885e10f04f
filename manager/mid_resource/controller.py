"""Controller of one node's Mid resources: gather the inputs, decide, calculate, compare, patch."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from api_types import names
from api_types.kubernetes import pods, quantities, times
from api_types.node_metric import mid_status
from api_types.node_metric.mid_eviction import MidEvictionRecord
from api_types.node_metric.mid_report import MidReport
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache import store
from manager.events import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.mid_resource import decision, events, formula, patch
from manager.mid_resource.decision import Action, Case
from manager.mid_resource.eviction.policy import eviction_policy
from manager.mid_resource.formula import Target
from manager.mid_resource.patch import REVERTS_REPORTED_FROM, PatchReason, WriteTurn
from manager.mid_resource.reasons import Reason, Status
from manager.mid_resource.target import MidNodeState, Targets
from manager.settings import ManagerSettings
from manager.slo_config.strategy import NodeStrategy, unconfigured

log = logging.getLogger(__name__)

_REQUEUE_SLACK: Final = 1.0  # seconds after a deadline, so that the reconcile comes after it and not on it


@dataclass(eq=False)
class MidController:
    """Keeps no state that a new leader could not restore; `clock` returns aware time.

    `observe` gets a case, its target if there is one, and the source of the requests in it, where the evictor may have
    to do with the node; it returns whether it still has then. `newly_evicted` returns the UIDs of pods
    that leave although a list may not show it yet, `remembered` why a node of this name and UID was closed.
    """

    api: session.Session
    cache: store.ClusterStore
    settings: ManagerSettings
    recorder: EventRecorder
    telemetry: Telemetry
    clock: Callable[[], dt.datetime]
    observe: Callable[[Case, Target | None, str], bool] = lambda *_: False
    newly_evicted: Callable[[], Collection[str]] = frozenset
    remembered: Callable[[str, str], MidEvictionRecord | None] = lambda *_: None

    def __post_init__(self) -> None:
        self._targets = Targets(
            self.api, dt.timedelta(seconds=self.settings.withdrawal_check_seconds), self.newly_evicted
        )
        self._nodes: dict[str, MidNodeState] = {}

    def forget(self, name: str) -> None:
        """Drop the state of a node that is gone."""
        self._nodes.pop(name, None)
        self.telemetry.forget_node(name)

    def relist(self, name: str) -> None:
        """List the pods of a node again at its next reconcile: one of them was evicted."""
        if (state := self._nodes.get(name)) is not None:
            state.listed = None

    def _state(self, node: store.StoredNode) -> MidNodeState:
        state = self._nodes.get(node.metadata.name)
        if state is None or state.uid != node.metadata.uid:
            was_replaced = state is not None
            state = self._nodes[node.metadata.name] = MidNodeState(node.metadata.uid)
            state.is_observed = was_replaced  # the evictor may still have the node before
        return state

    def needs_withdrawal(self, node: store.StoredNode, strategy: NodeStrategy) -> bool:
        """Check whether a node publishes Mid resources that are to be withdrawn; False once they are."""
        if not any(mid in (node.status.allocatable or {}) for mid in names.MID_RESOURCES):
            return False
        if node.mid_status is not None and node.mid_status.status == Status.WITHDRAWN:
            return False
        if node.mid_status is None and not decision.mid_policy(strategy).publishes:
            return False
        metric = self.cache.node_metrics.get(node.metadata.name)
        _, decided = self._state(node).decide(node, metric, strategy, self.clock(), is_preview=True)
        return decided.action is Action.WITHDRAW

    async def without_configuration(self, name: str) -> float | None:
        """Keep a node as it is while no usable configuration was read, until its sample is too old by the default.

        Return the seconds after which time alone requires another reconcile. Raises ApiServerError.
        """
        node = self.cache.nodes.get(name)
        if node is None:
            return None
        strategy, metric = unconfigured(), self.cache.node_metrics.get(name)
        _, decided = self._state(node).decide(node, metric, strategy, self.clock(), is_preview=True)
        if decided.action is Action.WITHDRAW and not formula.published_on(node).is_empty():
            return await self.reconcile(name, strategy)
        self._show(name, Reason.NO_CONFIGURATION)
        if decided.changes_at is None:
            return None
        return max((decided.changes_at - self.clock()).total_seconds(), 0.0) + _REQUEUE_SLACK

    async def reconcile(self, name: str, strategy: NodeStrategy) -> float | None:
        """Reconcile a node; return the seconds after which time alone requires another one. Raises ApiServerError."""
        node = self.cache.nodes.get(name)
        if node is None:
            return None
        lists = (node.status.capacity, node.status.allocatable)
        if not all(native in (amounts or {}) for native in (names.CPU, names.MEMORY) for amounts in lists):
            self._show(name, Reason.NODE_WITHOUT_RESOURCES)  # the kubelet has not reported them yet
            return None
        state = self._state(node)
        case = self._case(state, node, strategy)
        target, requests_from = await self._target(case, state)
        if state.is_observed or not self._needs_no_turn(case, target):
            state.is_observed = self.observe(case, target, requests_from)
        if case.decision.action is not Action.KEEP:
            self.telemetry.mid.show(name, target.values, target.lines)
        if case.is_shadow:
            self._show(name, target.reason)
            return self._requeue_seconds(case, target, written_now=False)
        reason = patch.patch_reason(
            target, case.decision.action, case.published, case.written,
            threshold=strategy.strategy.resource_diff_threshold or 0.0,
            refresh_period=decision.refresh_period(strategy), now=case.now, last_usable=case.inputs.last_usable,
        )  # fmt: skip
        turn = WriteTurn()
        withdraws = case.decision.action is Action.WITHDRAW
        if reason is not None:
            turn = state.pace.turn(case.published, mid_status.text_of(node), case.now, withdraws=withdraws)
            if not turn.wait_seconds:
                body = self._patch(case, target, requests_from, reason)
                await self._write(node, state, body, withdraws=withdraws)
        is_written = reason is not None and not turn.wait_seconds
        self._show(name, target.reason, is_clock_wrong=bool(case.inputs.clock_fault))
        about = Subject(resources.NODES, name, node.metadata.uid)
        for event in state.events(case, target, is_written=is_written):
            await self.recorder.event(about, *event)
        if turn.is_new_revert:
            await self._report_revert(about, turn)
        return turn.wait_seconds or self._requeue_seconds(case, target, written_now=is_written)

    def _needs_no_turn(self, case: Case, target: Target) -> bool:
        """Check whether the evictor has nothing to do with a node, which is so for most: it need not observe it.

        A looser bound than that of `shortage.Observation`, from what the reconcile has computed anyway.
        """
        chosen, usage = eviction_policy(case.strategy), case.report.usage
        may_be_emptied = chosen.empty_after is not None or self.settings.autoscaling != "none"
        if case.closed or may_be_emptied or target.is_short():
            return False
        used, memory = case.inputs.usable.used if case.inputs.usable else None, target.lines.get(names.MID_MEMORY)
        if used is None or memory is None or usage is None or chosen.memory_threshold_percent is None:
            return True
        of_mid = quantities.amounts(usage.mid).get(names.MEMORY, 0)
        is_low = (used.amounts[names.MEMORY] + of_mid) * 100 < chosen.memory_threshold_percent * (memory.capacity or 0)
        return is_low or of_mid == quantities.UNKNOWN

    async def _target(self, case: Case, state: MidNodeState) -> tuple[Target, str]:
        try:
            return await self._targets.make(case, state)
        except Exception:
            if state.is_observed:  # a drain that was switched off ends, whatever fails here
                state.is_observed = self.observe(case, None, "")
            raise

    async def _report_revert(self, about: Subject, turn: WriteTurn) -> None:
        self.telemetry.reverts.inc()
        if turn.reverts >= REVERTS_REPORTED_FROM:
            # after a write of its own, the manager itself is the last writer that the apiserver has recorded
            writer = await events.other_writer(self.api, about.name) if turn.wait_seconds else events.UNKNOWN_WRITER
            await self.recorder.event(about, *events.revert_event(writer))

    def _show(self, name: str, reason: Reason, *, is_clock_wrong: bool | None = None) -> None:
        node = self.cache.nodes.get(name)
        published = formula.published_on(node).allocatable if node else {}
        self.telemetry.show_node(name, reason, published, is_clock_wrong=is_clock_wrong)

    def _case(self, state: MidNodeState, node: store.StoredNode, strategy: NodeStrategy) -> Case:
        name = node.metadata.name
        metric, now = self.cache.node_metrics.get(name), self.clock()
        gathered, decided = state.decide(node, metric, strategy, now)
        if decided.action is Action.CALCULATE and gathered.sample_time is not None:
            self.telemetry.show_sample(name, gathered.sample_time, now)
        policy = decision.mid_policy(strategy)
        never_predicted = decided.reason is Reason.CALCULATED_WITHOUT_PREDICTION and gathered.last_prediction is None
        if self.settings.autoscaling != "none" and never_predicted:  # a new node offers nothing before that
            policy = dataclasses.replace(policy, unallocated_percent=0)
        return Case(
            name=name, node=node, report=(metric.status if metric else None) or MidReport(), strategy=strategy,
            policy=policy, published=formula.published_on(node), inputs=gathered, decision=decided, now=now,
            remembered=self.remembered(name, node.metadata.uid),
        )  # fmt: skip

    def _patch(self, case: Case, target: Target, requests_from: str, reason: PatchReason) -> dict[str, Any]:
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
            detail=case.detail,
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
        return patch.node_patch(case.node, target, status)

    async def _write(
        self, node: store.StoredNode, state: MidNodeState, body: Mapping[str, Any], *, withdraws: bool
    ) -> None:
        """Patch the status of a node. The apiserver rejects the patch where the node was recreated meanwhile."""
        name = node.metadata.name
        try:
            with self.telemetry.write("node_status"):
                patched = await objects.merge_patch(
                    self.api, resources.NODES, name, body, subresource="status", decode=pods.Node
                )
        except errors.NotFound:
            self.cache.nodes.remove(name, node.metadata.uid)
        else:
            self.cache.nodes.update(patched, only_known=True)
            state.pace.written(body, self.clock(), withdraws=withdraws)

    def _requeue_seconds(self, case: Case, target: Target, *, written_now: bool) -> float | None:
        if case.decision.action is Action.WITHDRAW:
            return None if target.removes_all() else self.settings.withdrawal_check_seconds + _REQUEUE_SLACK
        deadlines = [case.decision.changes_at] if case.decision.changes_at else []
        last_write = (
            case.now if written_now else times.parse_rfc3339_or_none(case.written.time if case.written else None)
        )
        if last_write is not None and not target.removes_all():
            deadlines.append(last_write + decision.refresh_period(case.strategy))
        if not deadlines:
            return None
        return max((min(deadlines) - case.now).total_seconds(), 0.0) + _REQUEUE_SLACK

"""Controller of one node's Mid resources: gather the inputs, decide, calculate, compare, patch."""

from __future__ import annotations

import datetime as dt
import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import MidPolicy, MidReport, Requests, UsableReport
from api_types.node_metric.mid_status import MidStatus
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache import store
from manager.events import EventRecorder
from manager.metrics import Telemetry
from manager.mid_resource import calculator, clock_skew, decision, other_writer, patch, pod_requests, status_annotation
from manager.mid_resource.decision import Action, Decision, DecisionInputs
from manager.mid_resource.patch import PatchReason
from manager.mid_resource.reasons import RESERVATION_IGNORED, TEXTS, Reason, Status
from manager.mid_resource.write_pace import REVERTS_REPORTED_FROM, Turn, WritePace
from manager.settings import ManagerSettings
from manager.slo_config.strategy import MOST_KNOWN, NodeStrategy

log = logging.getLogger(__name__)

FROM_REPORT = "report"
FROM_PODS = "pods"
_PUBLISHING = (Reason.CALCULATED, Reason.CALCULATED_FROM_RECLAIMABLE, Reason.STATIC)
_REQUEUE_SLACK = 1.0  # seconds after a deadline, so that the reconcile comes after it and not on it


@functools.lru_cache(maxsize=MOST_KNOWN)  # one entry for each way in which nodes differ
def mid_policy_of(strategy: NodeStrategy) -> MidPolicy:
    """Return the policy of the formula for nodes with this strategy."""
    return mid_report.mid_policy(strategy.strategy)


class _Gathered(NamedTuple):
    """Inputs of a decision, and the objects that they are from."""

    node: store.Node
    metric: store.NodeMetric | None
    strategy: NodeStrategy
    inputs: DecisionInputs


@dataclass(frozen=True)
class _Case:
    """One node at one time, decided."""

    name: str
    node: store.Node
    report: MidReport
    strategy: NodeStrategy
    policy: MidPolicy
    published: calculator.Published
    inputs: DecisionInputs
    decision: Decision
    now: dt.datetime

    @property
    def written(self) -> MidStatus | None:
        return self.node.mid_status

    @property
    def refresh_period(self) -> dt.timedelta:
        return decision.period(self.strategy.strategy.update_time_threshold_seconds or 0)


_Sample = tuple[str, dt.datetime | None]
"""UID of a node, and time of a sample of it."""


class MidController:
    """Keeps no state that a new leader could not restore; `clock` returns aware time."""

    def __init__(
        self,
        api: session.Session,
        *,
        cache: store.ClusterStore,
        settings: ManagerSettings,
        recorder: EventRecorder,
        telemetry: Telemetry,
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._api = api
        self._cache = cache
        self._settings = settings
        self._recorder = recorder
        self._telemetry = telemetry
        self._clock = clock
        self._gathered: dict[str, _Gathered] = {}
        """Inputs that `needs_withdrawal` gathered when the node was queued, for the reconcile that follows."""
        self._last_usable: dict[str, tuple[str, dt.datetime]] = {}
        self._counted: dict[str, tuple[_Sample, Requests]] = {}
        self._last_reason: dict[str, str] = {}
        self._pace = WritePace()
        self._wrong_clocks: dict[str, str] = {}
        """UID of each node whose clock was reported as wrong."""

    def forget(self, name: str) -> None:
        """Drop the state of a node that is gone."""
        for known in (self._gathered, self._last_usable, self._counted, self._last_reason, self._wrong_clocks):
            known.pop(name, None)
        self._pace.forget(name)
        self._telemetry.forget_node(name)

    def needs_withdrawal(self, name: str, strategy: NodeStrategy) -> bool:
        """Check whether a node publishes Mid resources that are to be withdrawn; False once they are."""
        node = self._cache.nodes.get(name)
        if node is None or not any(mid in (node.status.allocatable or {}) for mid in names.MID_RESOURCES):
            return False
        if node.mid_status is not None and node.mid_status.status == Status.WITHDRAWN:
            return False
        gathered = self._gathered[name] = self._gather(node, self._cache.node_metrics.get(name), strategy)
        return decision.decide(gathered.inputs, self._clock()).action is Action.WITHDRAW

    async def without_configuration(self, name: str) -> None:
        """Keep a node as it is: no usable configuration exists yet. Raises ApiServerError."""
        self._telemetry.show_node(name, Reason.NO_CONFIGURATION, {})
        if (node := self._cache.nodes.get(name)) is not None:
            await self._rename_annotation(node)

    async def reconcile(self, name: str, strategy: NodeStrategy) -> float | None:
        """Reconcile a node; return the seconds after which time alone requires another one. Raises ApiServerError."""
        node = self._cache.nodes.get(name)
        if node is None:
            return None
        if not _has_resources(node):
            self._telemetry.show_node(name, Reason.NODE_WITHOUT_RESOURCES, {})
            await self._rename_annotation(node)
            return None
        case = self._case(name, node, strategy)
        target, requests_from = await self._target(case)
        reason = patch.patch_reason(
            target,
            case.decision.action,
            case.published,
            case.written,
            threshold=strategy.strategy.resource_diff_threshold or 0.0,
            refresh_period=case.refresh_period,
            now=case.now,
        )
        turn = Turn()
        if reason is None:
            await self._rename_annotation(node)
        else:
            turn = self._pace.turn(node, case.now, withdraws=case.decision.action is Action.WITHDRAW)
            if not turn.wait_seconds:
                await self._write(case, target, requests_from, reason)
        self._telemetry.show_node(name, target.reason, target.values)
        await self._record_event(case, target)
        await self._report_revert(case, turn)
        await self._report_clock(case)
        return turn.wait_seconds or self._requeue_seconds(case, target, written_now=reason is not None)

    async def _report_clock(self, case: _Case) -> None:
        """Name a node whose clock is wrong, once until it is right again."""
        fault, uid = case.inputs.clock_fault, case.node.metadata.uid
        self._telemetry.show_clock(case.name, is_wrong=bool(fault))
        if not fault:
            self._wrong_clocks.pop(case.name, None)
        elif self._wrong_clocks.get(case.name) != uid:
            self._wrong_clocks[case.name] = uid
            about, text = Subject(resources.NODES, case.name, uid), clock_skew.event_message(fault)
            await self._recorder.event(about, "Warning", clock_skew.EVENT_REASON, text)

    async def _report_revert(self, case: _Case, turn: Turn) -> None:
        """Count a revert, and record an Event about a series of them."""
        if not turn.is_new_revert:
            return
        self._telemetry.reverts.inc()
        if turn.reverts >= REVERTS_REPORTED_FROM:
            about = Subject(resources.NODES, case.name, case.node.metadata.uid)
            # after a write of its own, the manager itself is the last writer that the apiserver has recorded
            writer = await other_writer.describe(self._api, case.name) if turn.wait_seconds else other_writer.UNKNOWN
            await self._recorder.event(about, "Warning", other_writer.EVENT_REASON, other_writer.event_message(writer))

    def _case(self, name: str, node: store.Node, strategy: NodeStrategy) -> _Case:
        metric = self._cache.node_metrics.get(name)
        known = self._gathered.pop(name, None)
        if known is None or known.node is not node or known.metric is not metric or known.strategy is not strategy:
            known = self._gather(node, metric, strategy)
        inputs, now = known.inputs, self._clock()
        decided = decision.decide(inputs, now)
        if decided.action is Action.CALCULATE and inputs.sample_time is not None:
            self._last_usable[name] = (node.metadata.uid, inputs.sample_time)
            self._telemetry.show_sample(name, inputs.sample_time, now)
        return _Case(
            name=name,
            node=node,
            report=(metric.status if metric else None) or MidReport(),
            strategy=strategy,
            policy=mid_policy_of(strategy),
            published=calculator.published_on(node),
            inputs=inputs,
            decision=decided,
            now=now,
        )

    def _gather(self, node: store.Node, metric: store.NodeMetric | None, strategy: NodeStrategy) -> _Gathered:
        uid, last_usable = self._last_usable.get(node.metadata.name, ("", None))
        inputs = decision.gather(
            node,
            metric,
            mid_policy_of(strategy),
            enabled=strategy.enabled,
            degrade_after=decision.degrade_time(strategy.strategy),
            last_usable=last_usable if uid == node.metadata.uid else None,
        )
        return _Gathered(node, metric, strategy, inputs)

    async def _target(self, case: _Case) -> tuple[calculator.Target, str]:
        """Return the values to publish, and the source of the requests in them."""
        reason = case.decision.reason
        match case.decision.action:
            case Action.KEEP:
                before = case.written.requests_from if case.written else ""
                return calculator.kept(case.published, reason, case.written), before
            case Action.WITHDRAW:
                bound = await self._still_bound(case)
                return calculator.withdrawn(bound, reason), FROM_PODS if bound else ""
            case Action.CALCULATE:
                usable = case.inputs.usable
                assert usable is not None
                if usable.requests is not None:
                    return self._calculated(case, usable, usable.requests), FROM_REPORT
                return self._calculated(case, usable, await self._count(case)), FROM_PODS

    async def _count(self, case: _Case) -> Requests:
        """Count the requests on a node whose agent does not report them: one pod list per sample, not per event.

        The manager's own write to the node is such an event.
        """
        sample = case.node.metadata.uid, case.inputs.sample_time
        known = self._counted.get(case.name)
        if known is None or known[0] != sample:
            known = self._counted[case.name] = sample, await pod_requests.of_node(self._api, case.name)
        return known[1]

    def _calculated(self, case: _Case, report: UsableReport, requests: Requests) -> calculator.Target:
        allocatable = node_reservation.allocatable(case.node).resources
        inputs = mid_report.formula_inputs(
            report, case.policy, allocatable, pods.units(case.node.status.capacity), requests
        )
        sample = case.inputs.sample_time
        published_sample = case.written.sample if case.written and case.written.reason in _PUBLISHING else ""
        return calculator.calculated(
            inputs,
            case.published,
            case.strategy.strategy.mid_max_increase_percent or calculator.UNLIMITED_INCREASE_PERCENT,
            same_sample=sample is not None and times.format_rfc3339(sample) == published_sample,
            reserved=node_reservation.annotated(pods.annotations_of(case.node.metadata)).resources,
        )

    async def _still_bound(self, case: _Case) -> Mapping[str, int] | None:
        """Return the Mid requests that a withdrawal leaves room for; None where it leaves none.

        The pods of a node that carries no Mid key, and whose agent reports no Mid pod, are not listed: a cluster
        without colocation costs nothing.
        """
        if not case.policy.floor:
            return None
        if case.published.is_empty():
            reported = case.report.allocated
            if case.written is None or (reported is not None and not any(map(_is_positive, reported.mid.values()))):
                return None
        return (await pod_requests.of_node(self._api, case.name)).mid

    async def _write(self, case: _Case, target: calculator.Target, requests_from: str, reason: PatchReason) -> None:
        match case.decision.action:
            case Action.CALCULATE:
                sample = case.inputs.sample_time
            case Action.KEEP:
                sample = times.parse_rfc3339_or_none(case.written.sample) if case.written else None
            case Action.WITHDRAW:
                sample = None
        status = status_annotation.make(
            target.reason,
            case.now,
            detail=_detail(case),
            sample=sample,
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
        withdraws = case.decision.action is Action.WITHDRAW
        await self._patch(case.node, patch.node_patch(case.node, target, status), withdraws=withdraws)

    async def _rename_annotation(self, node: store.Node) -> None:
        renaming = patch.rename_patch(node)
        if renaming is not None and not self._pace.turn(node, self._clock(), withdraws=False).wait_seconds:
            log.info("node %s: removing annotation %s", node.metadata.name, names.OLD_ANNOTATION_MID_STATUS)
            await self._patch(node, renaming)

    async def _patch(self, node: store.Node, body: Mapping[str, Any], *, withdraws: bool = False) -> None:
        """Patch the status of a node. The apiserver rejects the patch where the node was recreated meanwhile."""
        name = node.metadata.name
        try:
            with self._telemetry.write("node_status"):
                seen = await objects.merge_patch_status(self._api, resources.NODES, name, body, decode=pods.Node)
        except errors.NotFound:
            self._cache.nodes.remove(name, node.metadata.uid)
        else:
            self._cache.nodes.update(seen)
            self._pace.written(node, body, self._clock(), withdraws=withdraws)

    async def _record_event(self, case: _Case, target: calculator.Target) -> None:
        """Record an Event on the node where the reason changed in a way that an operator needs to know."""
        before = self._last_reason.get(case.name, case.written.reason if case.written else "")
        self._last_reason[case.name] = target.reason
        if before == target.reason or not _worth_an_event(before, target.reason, case.published):
            return
        severity = "Normal" if target.reason in (*_PUBLISHING, Reason.COLOCATION_DISABLED) else "Warning"
        values = ", ".join(
            f"{mid} {'none' if value is None else value}" for mid, value in sorted(target.values.items())
        )
        detail = f" ({_detail(case)})" if _detail(case) else ""
        message = f"Mid resources {TEXTS[target.reason]}{detail}: {values}"
        about = Subject(resources.NODES, case.name, case.node.metadata.uid)
        await self._recorder.event(about, severity, target.reason.value, message)  # type: ignore[arg-type]

    def _requeue_seconds(self, case: _Case, target: calculator.Target, *, written_now: bool) -> float | None:
        if case.decision.action is Action.WITHDRAW:
            return None if target.removes_all() else float(self._settings.withdrawal_check_seconds)
        deadlines = [case.decision.changes_at] if case.decision.changes_at else []
        last_write = (
            case.now if written_now else times.parse_rfc3339_or_none(case.written.time if case.written else None)
        )
        if last_write is not None and not target.removes_all():
            deadlines.append(last_write + case.refresh_period)
        if not deadlines:
            return None
        return max((min(deadlines) - case.now).total_seconds(), 0.0) + _REQUEUE_SLACK


def _detail(case: _Case) -> str:
    """Return the fault of the report, or of the reservation that a value was calculated without."""
    if case.decision.action is not Action.CALCULATE:
        return case.decision.detail
    found = node_reservation.annotated(pods.annotations_of(case.node.metadata)).problems
    return "; ".join(f"{RESERVATION_IGNORED}: {problem}" for problem in found)


def _has_resources(node: pods.Node) -> bool:
    """Check whether the kubelet has reported cpu and memory; before that no resource is written to the node."""
    lists = (node.status.capacity, node.status.allocatable)
    return all(native in (each or {}) for native in (names.CPU, names.MEMORY) for each in lists)


def _is_positive(quantity: str | float) -> bool:
    return str(quantity) not in ("0", "0.0")


def _worth_an_event(before: str, now: Reason, published: calculator.Published) -> bool:
    """Check for withdrawals, refusals and the return from them; calculated and kept alternate in normal operation."""
    if now in _PUBLISHING:
        return before not in (*_PUBLISHING, Reason.NO_PREDICTION)
    if now in (Reason.NO_PREDICTION, Reason.AWAITING_FIRST_REPORT):
        return False
    return now in (Reason.REPORT_REFUSED, Reason.NEVER_REPORTED) or not published.is_empty()

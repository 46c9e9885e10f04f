"""Brings one node's Mid resources to what they should be: gather, judge, calculate, compare, patch."""

from __future__ import annotations

import datetime as dt
import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from api_types import names
from api_types.kubernetes import node_reservation, pods, times
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import MidPolicy, MidReport
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache import store
from manager.events import EventRecorder
from manager.metrics import Telemetry
from manager.mid_resource import calculator, pod_requests, status_annotation
from manager.mid_resource import decision as judgement
from manager.mid_resource import inputs as evidence
from manager.mid_resource import patch as writing
from manager.mid_resource.decision import Action
from manager.mid_resource.reasons import RESERVATION_IGNORED, TEXTS, Reason, Status
from manager.settings import ManagerSettings
from manager.slo_config.strategy import NodeStrategy

log = logging.getLogger(__name__)

FROM_REPORT = "report"
FROM_PODS = "pods"
_PUBLISHING = (Reason.CALCULATED, Reason.CALCULATED_FROM_RECLAIMABLE, Reason.STATIC)
_NEXT_LOOK_SLACK = 1.0  # seconds after a deadline, so that the look comes after it and not on it


@functools.lru_cache(maxsize=1024)  # one entry for each way in which nodes differ
def mid_policy_of(strategy: NodeStrategy) -> MidPolicy:
    """Policy that the formula takes, of a node with this strategy."""
    return mid_report.mid_policy(strategy.strategy)


@dataclass(frozen=True)
class _Case:
    """One node at one moment."""

    name: str
    node: pods.Node
    report: MidReport
    strategy: NodeStrategy
    policy: MidPolicy
    published: calculator.Published
    written: status_annotation.MidStatus | None
    evidence: evidence.DecisionInputs
    judgement: judgement.Decision
    now: dt.datetime

    @property
    def refresh_period(self) -> dt.timedelta:
        return evidence.period(self.strategy.strategy.update_time_threshold_seconds or 0)


_Sample = tuple[str, dt.datetime | None]
"""UID of a node, and time of a sample of it."""


class MidController:
    """Keeps nothing that a successor could not find out again; `clock` gives aware time."""

    def __init__(
        self,
        api: session.Session,
        *,
        picture: store.ClusterStore,
        settings: ManagerSettings,
        announcer: EventRecorder,
        telemetry: Telemetry,
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._api = api
        self._picture = picture
        self._settings = settings
        self._announcer = announcer
        self._telemetry = telemetry
        self._clock = clock
        self._last_usable: dict[str, tuple[str, dt.datetime]] = {}
        self._counted: dict[str, tuple[_Sample, mid_report.Requests]] = {}
        self._told: dict[str, str] = {}

    def forget(self, name: str) -> None:
        """Forget a node that is gone."""
        self._last_usable.pop(name, None)
        self._counted.pop(name, None)
        self._told.pop(name, None)
        self._telemetry.forget_node(name)

    def is_to_be_withdrawn(self, name: str, strategy: NodeStrategy) -> bool:
        """Whether a node publishes Mid resources that it should not have any more; False once that was done."""
        node = self._picture.nodes.get(name)
        if node is None or not any(mid in (node.status.allocatable or {}) for mid in names.MID_RESOURCES):
            return False
        written = status_annotation.of_node(node)
        if written is not None and written.status == Status.WITHDRAWN:
            return False
        known = self._evidence(node, self._picture.node_metrics.get(name), strategy)
        return judgement.judge(known, self._clock()).verdict is Action.WITHDRAW

    def without_configuration(self, name: str) -> None:
        """Leave a node as it is: nothing that can be used was seen yet."""
        self._telemetry.show_node(name, Reason.NO_CONFIGURATION, {})

    async def reconcile(self, name: str, strategy: NodeStrategy) -> float | None:
        """Bring a node there; gives the seconds after which time alone may ask for more. Raises ApiServerError."""
        node = self._picture.nodes.get(name)
        if node is None:
            return None
        if not _has_resources(node):
            self._telemetry.show_node(name, Reason.NODE_WITHOUT_RESOURCES, {})
            return None
        case = self._case(name, node, strategy)
        target, requests_from = await self._target(case)
        cause = writing.cause(
            target,
            case.judgement.verdict,
            case.published,
            case.written,
            threshold=strategy.strategy.resource_diff_threshold or 0.0,
            refresh_period=case.refresh_period,
            now=case.now,
        )
        if cause is not None:
            await self._write(case, target, requests_from, cause)
        self._telemetry.show_node(name, target.reason, target.values)
        await self._announce(case, target)
        return self._next_look(case, target, written_now=cause is not None)

    def _case(self, name: str, node: pods.Node, strategy: NodeStrategy) -> _Case:
        metric = self._picture.node_metrics.get(name)
        known = self._evidence(node, metric, strategy)
        now = self._clock()
        judged = judgement.judge(known, now)
        if judged.verdict is Action.CALCULATE and known.sample_time is not None:
            self._last_usable[name] = (node.metadata.uid, known.sample_time)
            self._telemetry.show_sample(name, known.sample_time, now)
        return _Case(
            name=name,
            node=node,
            report=(metric.status if metric else None) or MidReport(),
            strategy=strategy,
            policy=mid_policy_of(strategy),
            published=calculator.published_on(node),
            written=status_annotation.of_node(node),
            evidence=known,
            judgement=judged,
            now=now,
        )

    def _evidence(
        self, node: pods.Node, metric: store.NodeMetric | None, strategy: NodeStrategy
    ) -> evidence.DecisionInputs:
        uid, last_usable = self._last_usable.get(node.metadata.name, ("", None))
        return evidence.gather(
            node,
            metric,
            mid_policy_of(strategy),
            enabled=strategy.enabled,
            degrade_after=evidence.degrade_time(strategy.strategy),
            last_usable=last_usable if uid == node.metadata.uid else None,
        )

    async def _target(self, case: _Case) -> tuple[calculator.Target, str]:
        """What to publish, and where the requests in it were taken from."""
        reason = case.judgement.reason
        match case.judgement.verdict:
            case Action.KEEP:
                before = case.written.requests_from if case.written else ""
                return calculator.kept(case.published, reason, case.written), before
            case Action.WITHDRAW:
                bound = await self._still_bound(case)
                return calculator.withdrawn(bound, reason), FROM_PODS if bound else ""
            case Action.CALCULATE:
                requests, requests_from = mid_report.reported_requests(case.report), FROM_REPORT
                if requests is None:
                    requests, requests_from = await self._count(case), FROM_PODS
                return self._calculated(case, requests), requests_from

    async def _count(self, case: _Case) -> mid_report.Requests:
        """Requests bound to a node whose agent does not report them: one pod list for each sample, not for each event.

        Our own write to the node is such an event.
        """
        sample = case.node.metadata.uid, case.evidence.sample_time
        known = self._counted.get(case.name)
        if known is None or known[0] != sample:
            known = self._counted[case.name] = sample, await pod_requests.of_node(self._api, case.name)
        return known[1]

    def _calculated(self, case: _Case, requests: mid_report.Requests) -> calculator.Target:
        left = node_reservation.allocatable(case.node).resources
        inputs = mid_report.inputs_from(case.report, case.policy, left, pods.units(case.node.status.capacity), requests)
        sample = case.evidence.sample_time
        published_sample = case.written.sample if case.written and case.written.reason in _PUBLISHING else ""
        return calculator.calculated(
            inputs,
            case.published,
            case.strategy.strategy.mid_max_increase_percent or calculator.UNLIMITED_INCREASE_PERCENT,
            same_sample=sample is not None and times.format_rfc3339(sample) == published_sample,
            reserved=node_reservation.annotated(pods.annotations_of(case.node.metadata)).resources,
        )

    async def _still_bound(self, case: _Case) -> Mapping[str, int] | None:
        """Mid requests to leave room for in a withdrawal; None where nothing is to be left.

        A node that carries none of our keys, and whose agent says that no Mid pod is there, is not asked for its pods:
        a cluster without colocation costs nothing.
        """
        if not case.policy.floor:
            return None
        if case.published.is_empty():
            reported = case.report.allocated
            if case.written is None or (reported is not None and not any(map(_is_positive, reported.mid.values()))):
                return None
        return (await pod_requests.of_node(self._api, case.name)).mid

    async def _write(
        self, case: _Case, target: calculator.Target, requests_from: str, cause: writing.PatchReason
    ) -> None:
        match case.judgement.verdict:
            case Action.CALCULATE:
                sample = case.evidence.sample_time
            case Action.KEEP:
                sample = times.parse_rfc3339_or_none(case.written.sample) if case.written else None
            case Action.WITHDRAW:
                sample = None
        made = status_annotation.make(
            target.reason,
            case.now,
            detail=_detail(case),
            sample=sample,
            requests_from=requests_from,
            lines=target.lines,
            before=case.written,
        )
        patch = writing.node_patch(target, made)
        patch["metadata"]["uid"] = case.node.metadata.uid  # a namesake that replaced this node is refused, not patched
        level = logging.DEBUG if cause is writing.PatchReason.REFRESH else logging.INFO
        log.log(level, "%s: %s %s (%s, %s)", case.name, cause.value, dict(target.values), target.reason, made.detail)
        try:
            with self._telemetry.write("node_status"):
                seen = await objects.merge_patch_status(self._api, resources.NODES, case.name, patch, decode=pods.Node)
        except errors.NotFound:
            self._picture.nodes.forget(case.name, case.node.metadata.uid)
        else:
            self._picture.nodes.remember(seen)

    async def _announce(self, case: _Case, target: calculator.Target) -> None:
        """Post an Event on the node where the reason became another one that people want to know of."""
        before = self._told.get(case.name, case.written.reason if case.written else "")
        self._told[case.name] = target.reason
        if before == target.reason or not _worth_telling(before, target.reason, case.published):
            return
        severity = "Normal" if target.reason in (*_PUBLISHING, Reason.COLOCATION_DISABLED) else "Warning"
        values = ", ".join(
            f"{mid} {'none' if value is None else value}" for mid, value in sorted(target.values.items())
        )
        detail = f" ({_detail(case)})" if _detail(case) else ""
        message = f"Mid resources {TEXTS[target.reason]}{detail}: {values}"
        about = Subject(resources.NODES, case.name, case.node.metadata.uid)
        await self._announcer.say(about, severity, target.reason.value, message)  # type: ignore[arg-type]

    def _next_look(self, case: _Case, target: calculator.Target, *, written_now: bool) -> float | None:
        if case.judgement.verdict is Action.WITHDRAW:
            return None if target.removes_all() else float(self._settings.withdrawal_check_seconds)
        deadlines = [case.judgement.changes_at] if case.judgement.changes_at else []
        last_write = (
            case.now if written_now else times.parse_rfc3339_or_none(case.written.time if case.written else None)
        )
        if last_write is not None and not target.removes_all():
            deadlines.append(last_write + case.refresh_period)
        if not deadlines:
            return None
        return max((min(deadlines) - case.now).total_seconds(), 0.0) + _NEXT_LOOK_SLACK


def _detail(case: _Case) -> str:
    """What was seen: the fault of a report, or of the reservation that a value was calculated without."""
    if case.judgement.verdict is not Action.CALCULATE:
        return case.judgement.detail
    found = node_reservation.annotated(pods.annotations_of(case.node.metadata)).problems
    return "; ".join(f"{RESERVATION_IGNORED}: {problem}" for problem in found)


def _has_resources(node: pods.Node) -> bool:
    """Whether the node has said what it has: before that nothing is written to it (koordinator-core 4.7)."""
    lists = (node.status.capacity, node.status.allocatable)
    return all(native in (each or {}) for native in (names.CPU, names.MEMORY) for each in lists)


def _is_positive(quantity: str | float) -> bool:
    return str(quantity) not in ("0", "0.0")


def _worth_telling(before: str, now: Reason, published: calculator.Published) -> bool:
    """Withdrawals, refusals and the return from them; not the everyday change between calculated and kept."""
    if now in _PUBLISHING:
        return before not in (*_PUBLISHING, Reason.NO_PREDICTION)
    if now in (Reason.NO_PREDICTION, Reason.AWAITING_FIRST_REPORT):
        return False
    return now in (Reason.REPORT_REFUSED, Reason.NEVER_REPORTED) or not published.is_empty()

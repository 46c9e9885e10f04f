"""State of one node in a snapshot: usage, requests, predicted peak and Mid resources side by side. Pure.

A value that is not known is None, never 0: Koordinator's agent reports no requests, a new node has no report. Requests
that the report lacks are those of the status annotation, which the manager counted.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, quantities, times
from api_types.node_metric import evaluation_report, mid_report
from api_types.node_metric.evaluation_report import Packed
from api_types.node_metric.mid_status import MidStatus
from fleet import wire
from manager.cache import store
from manager.mid_resource import decision, formula
from manager.mid_resource.explanation import Term
from manager.mid_resource.reasons import PROBLEM_CODES, RESERVATION_IGNORED, STATUS, TEXTS, Reason, Status
from manager.slo_config import explanation, strategy
from manager.slo_config.evaluation import ConfigOutcome


class Amounts(NamedTuple):
    """CPU in milli-cores and memory in bytes; None where not known."""

    cpu: int | None = None
    memory: int | None = None

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference; None where one of both is not known."""
        pairs = zip(self, other, strict=True)
        return Amounts(*(None if more is None or less is None else more - less for more, less in pairs))

    def at_most(self, bounds: Amounts) -> Amounts:
        """Return the amounts, each at most its bound where that is known."""
        pairs = zip(self, bounds, strict=True)
        return Amounts(*(amount and min(amount, amount if bound is None else bound) for amount, bound in pairs))


UNKNOWN = Amounts()


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node. `used` is the whole node, `prod_used` and `mid_used` are parts of it."""

    name: str
    allocatable: Amounts = UNKNOWN
    used: Amounts = UNKNOWN
    prod_used: Amounts = UNKNOWN
    mid_used: Amounts = UNKNOWN
    prod_requests: Amounts = UNKNOWN
    prod_peak: Amounts = UNKNOWN
    system_peak: Amounts = UNKNOWN
    """Part of `prod_peak`: what runs outside of pods, beyond the reservation; unknown where no predictor states it."""
    mid: Amounts = UNKNOWN
    """Mid resources in the node's allocatable."""
    mid_requests: Amounts = UNKNOWN
    offers_batch: bool = False
    """Whether another manager publishes Batch resources on it."""
    sample: dt.datetime | None = None
    sample_age_seconds: float | None = None
    reason: str = ""
    """Reason code of its Mid resources, for the newest report."""
    status: str = ""
    text: str = ""
    detail: str = ""
    closed: str = ""
    clock_fault: str = ""
    predictor: str = ""
    recorded_since: dt.datetime | None = None
    """Start of the history that it predicts from."""
    cold_pods: int | None = None
    borrowed_pods: int = 0
    warm_pods: int | None = None
    calibrated_after: dt.datetime | None = None
    """Time from which `calibrated` is alone in force; None where it is, or is not wanted."""
    conditions: tuple[wire.WireCondition, ...] = ()
    """Conditions of the report that are a fault."""
    problems: tuple[tuple[str, str], ...] = ()
    """Code and sentence of what is refused or unlikely in annotations and labels of the node."""
    short: Mapping[str, int] = field(default_factory=dict)
    """What Mid pods request more than is calculated, by the Mid resource."""
    short_seconds: float | None = None
    """How long it has been short; None where that is not recorded."""
    eviction: str = ""
    """What would be evicted next for it, as a sentence; empty where it was not read."""
    usage_limits: Mapping[str, float] | None = None
    """Usage in percent above which the scheduler places no pod, by the node's own annotation; None without one."""
    report_interval_seconds: float | None = None
    """How often the agent is to report."""
    evaluation: Packed | None = None
    """Live evaluation of the predictors, the one in force first."""
    has_node: bool = True
    has_report: bool = False

    def used_percent(self, of: str) -> float | None:
        """Return the usage of `cpu` or `memory` in percent of the allocatable."""
        return percent(getattr(self.used, of), getattr(self.allocatable, of))

    def above(self, limits: Mapping[str, float]) -> dict[str, tuple[float, float]]:
        """Return usage and limit in percent of each resource above its limit; an own limit replaces the cluster's."""
        own = limits if self.usage_limits is None or not limits else self.usage_limits
        used = {resource: (self.used_percent(resource) or 0.0, limit) for resource, limit in own.items()}
        return {resource: pair for resource, pair in used.items() if pair[0] > pair[1] > 0}


def percent(part: int | None, whole: int | None) -> float | None:
    """Return a share in percent; None where one of both is not known, or the whole is 0."""
    return None if part is None or not whole else 100 * part / whole


def combine(
    name: str, node: store.StoredNode | None, metric: wire.WireNodeMetric | None, now: dt.datetime
) -> NodeState:
    """Combine a Node and its NodeMetric; each may be missing, but not both."""
    report = (metric.status if metric else None) or wire.WireReport()
    written = node.mid_status if node else None
    sample = times.parse_rfc3339_or_none(report.update_time)
    reason, text, detail, status = _reason(node, metric, written, now)
    usage, allocated, prediction = report.usage, report.allocated, report.prediction
    peak = native_amounts(report.prod_peak_metric.resource.resources if report.prod_peak_metric else None)
    system = native_amounts(prediction.prod.system_peak) if prediction and prediction.prod else UNKNOWN
    return NodeState(
        name=name,
        allocatable=_allocatable(node),
        used=native_amounts(report.node_metric.node_usage.resources if report.node_metric else None),
        prod_used=native_amounts(usage.prod if usage else None),
        mid_used=native_amounts(usage.mid if usage else None),
        prod_requests=native_amounts(allocated.prod) if allocated else _line_amounts(written, "allocated_prod"),
        prod_peak=peak,
        system_peak=system.at_most(peak).at_most(_line_amounts(written, "peak_prod")),
        mid=_mid(formula.published_on(node).allocatable) if node else UNKNOWN,
        mid_requests=_mid(_checked(allocated.mid)) if allocated else _line_amounts(written, "allocated_mid"),
        offers_batch=node is not None and names.BATCH_CPU in (node.status.allocatable or {}),
        sample=sample,
        sample_age_seconds=(now - sample).total_seconds() if sample else None,
        reason=reason,
        status=status,
        text=text,
        detail=detail,
        closed=written.closed if written else "",
        clock_fault=decision.clock_fault(metric) if metric else "",
        predictor=prediction.predictor if prediction else "",
        recorded_since=times.parse_rfc3339_or_none(prediction.since) if prediction else None,
        warm_pods=prediction.warm_pods if prediction else None,
        cold_pods=prediction.cold_pods if prediction else None,
        borrowed_pods=prediction.borrowed_pods if prediction else 0,
        calibrated_after=times.parse_rfc3339_or_none((prediction.level or {}).get("until")) if prediction else None,
        conditions=tuple(_faults(report.conditions or ())),
        problems=tuple(_problems(node)) if node else (),
        **_shortage(written, status, now),
        usage_limits=_own_limits(node) if node else None,
        report_interval_seconds=_report_interval(metric),
        evaluation=evaluation_report.pack(prediction.evaluation) if prediction and prediction.evaluation else None,
        has_node=node is not None,
        has_report=sample is not None,
    )


def _report_interval(metric: wire.WireNodeMetric | None) -> float | None:
    policy = (metric.spec or {}).get("metricCollectPolicy") if metric else None
    seconds = policy.get("reportIntervalSeconds") if isinstance(policy, dict) else None
    return float(seconds) if isinstance(seconds, int | float) else None


def _reason(
    node: store.StoredNode | None, metric: wire.WireNodeMetric | None, written: MidStatus | None, now: dt.datetime
) -> tuple[str, str, str, str]:
    """Return reason, text, detail and status for the newest report.

    A calculated reason is that of the last write, which has the source.
    """
    decided = decision.decide_by_spec(node, metric, now) if node else None
    is_calculated = decided is not None and STATUS[decided.reason] is Status.CALCULATED
    if written and (decided is None or (is_calculated and written.status == Status.CALCULATED)):
        return written.reason, written.text, written.detail, written.status
    if node is None:
        return "", "", "", ""
    reason, detail = (decided.reason, decided.detail) if decided else (Reason.NO_CONFIGURATION, "")
    return reason.value, TEXTS[reason], detail, STATUS[reason].value


def _faults(conditions: Iterable[wire.WireCondition]) -> Iterator[wire.WireCondition]:
    for condition in conditions:
        faulty = "False" if condition.type == "Ready" else "True"
        if condition.status == faulty and condition.type.endswith(("Ready", "Degraded", "Throttled", "Limits")):
            yield condition


def _problems(node: store.StoredNode) -> Iterator[tuple[str, str]]:
    """Yield what the manager records as Events on the node."""
    labels, annotations = pods.label_map(node.metadata), pods.annotation_map(node.metadata)
    for layer in strategy.node_layers(labels, annotations):
        for problem in layer.problems:
            yield PROBLEM_CODES[problem.effect], f"{layer.name}: {problem.with_effect()}"
    for problem in node_reservation.annotated(annotations).problems:
        yield RESERVATION_IGNORED, problem.with_effect()


def _own_limits(node: store.StoredNode) -> Mapping[str, float] | None:
    """Return the thresholds of the node's annotation; None where they are absent, or ignored for their shape."""
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        document = json.loads(pods.annotation_map(node.metadata).get(names.ANNOTATION_USAGE_THRESHOLDS, "{}"))
        limits = {key.lower(): value for key, value in document.items()}.get("usagethresholds")
        if limits and all(isinstance(limit, int) for limit in limits.values()):
            return {resource: limits[resource] for resource in (names.CPU, names.MEMORY) if resource in limits}
    return None


def _shortage(written: MidStatus | None, status: str, now: dt.datetime) -> dict[str, Any]:
    """Return what a calculated node lacks, and for how long."""
    if written is None or status == Status.WITHDRAWN:
        return {}
    lines = written.resources.items()
    lacks = {mid: (line.allocated_mid or 0) - line.calculated for mid, line in lines if line.calculated is not None}
    since = times.parse_rfc3339_or_none(written.floor_before)
    return {
        "short": {mid: lack for mid, lack in lacks.items() if lack > 0},
        "short_seconds": (now - since).total_seconds() if since else None,
    }


def _allocatable(node: store.StoredNode | None) -> Amounts:
    try:
        amounts = pods.allocatable(node) if node else {}
    except quantities.InvalidQuantity:
        amounts = {}
    return Amounts(amounts.get(names.CPU), amounts.get(names.MEMORY))


def _checked(document: Mapping[str, Any] | None) -> Mapping[str, int]:
    """Return the amounts of a report; none where one is impossible, which the reason `ReportRefused` states."""
    try:
        return mid_report.amounts(dict(document or {}), "")
    except mid_report.BadReport:
        return {}


def native_amounts(document: Mapping[str, Any] | None) -> Amounts:
    """Return the native amounts of a report; unknown where one is absent or impossible."""
    amounts = _checked(document)
    return Amounts(amounts.get(names.CPU), amounts.get(names.MEMORY))


def _mid(amounts: Mapping[str, int]) -> Amounts:
    return Amounts(amounts.get(names.MID_CPU), amounts.get(names.MID_MEMORY))


def _line_amounts(written: MidStatus | None, term: str) -> Amounts:
    """Return a term of the status annotation for both resources."""
    lines = written.resources if written else {}
    return Amounts(*(getattr(lines[mid], term) if mid in lines else None for mid in names.MID_RESOURCES))


TermsByName = Mapping[str, Term]
"""Terms of one resource."""


def mid_layers(outcome: ConfigOutcome | None, node: store.StoredNode) -> Mapping[str, str]:
    """Return the layer that sets each key of a node's strategy; empty where no configuration was read."""
    if outcome is None or outcome.configuration is None:
        return {}
    labels, annotations = pods.label_map(node.metadata), pods.annotation_map(node.metadata)
    chosen = strategy.node_strategy(outcome.configuration, labels, annotations)
    return {value.key: value.layer for value in explanation.explain_values(chosen.layers)}


def term_origin(term: Term, layer_of: Mapping[str, str]) -> str:
    """Return where a term comes from: its source, or the key with its layer; of a bound also whether it binds."""
    parts = [f"{term.key}, {layer_of[term.key]}" if term.key in layer_of else term.key or term.source]
    if term.binds is not None:
        parts.append("binds" if term.binds else "does not bind")
    return "; ".join(part for part in parts if part)

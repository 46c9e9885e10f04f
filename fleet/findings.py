"""One snapshot of the cluster, as far as the caller may read it, and what needs attention in it. Pure."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from api_types import names
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_resource
from fleet import wire
from fleet.finding_kinds import KINDS, FindingKind, Severity
from fleet.node_state import NodeState
from manager.mid_resource.reasons import Reason
from manager.slo_config import evaluation

VERSION_LABEL: Final = "app.kubernetes.io/version"


class Unread(NamedTuple):
    """Objects that were not read."""

    what: str
    """Such as `nodes`, or `leases/koord-manager`."""
    why: str
    is_right: bool = False
    """Whether a right is missing; otherwise the objects do not exist, or cannot be decoded."""


class AdmissionRules(NamedTuple):
    """What sets limits and scheduler of new Mid pods."""

    mode: Literal["", "webhook", "policy"] = ""
    valid_until: dt.datetime | None = None
    """End of the newest certificate of the webhook that the API server trusts; None without one."""


@dataclass(frozen=True)
class Installation:
    """Objects of the suite in its namespace; a workload that is not installed is absent."""

    namespace: str
    kubernetes: str = ""
    workloads: Mapping[str, wire.WireWorkload] = field(default_factory=dict)
    """koordlet, koord-manager, koord-scheduler and koord-admission, whatever their names are."""
    admission: AdmissionRules | None = None
    """None where it was not read."""
    leader: str = ""
    renewed: dt.datetime | None = None
    outcome: evaluation.ConfigOutcome | None = None
    """Configuration; None where it was not read."""
    config_map: str = names.SLO_CONTROLLER_CONFIG
    """ConfigMap that the manager reads."""

    @property
    def configuration(self) -> str:
        """Return the configuration in force, in words."""
        return evaluation.summary(self.outcome, kept_in=names.LAST_GOOD_CONFIG) if self.outcome else "not read"

    def name(self, part: str) -> str:
        """Return the name of the workload of a part, and of its Lease; the usual one where it is not installed."""
        workload = self.workloads.get(part)
        return workload.metadata.name if workload else part

    def versions(self) -> Mapping[str, str]:
        """Return the version of each workload, by the label of the chart."""
        labels = ((name, workload.metadata.labels or {}) for name, workload in self.workloads.items())
        return {name: of_name[VERSION_LABEL] for name, of_name in labels if of_name.get(VERSION_LABEL)}


@dataclass(frozen=True)
class FleetSnapshot:
    """Everything that was read. `nodes` is None where no list could be read."""

    time: dt.datetime
    server: str
    nodes: tuple[NodeState, ...] | None = None
    installation: Installation | None = None
    unread: tuple[Unread, ...] = ()
    usage_limits: Mapping[str, float] = field(default_factory=dict)
    """Usage of a node in percent above which the scheduler places no pod, by resource; empty where it is not known."""
    priority_classes: Sequence[wire.WirePriorityClass] | None = None
    pending_pods: Sequence[pods.Pod] | None = None
    refused_pods: Sequence[wire.WireEvent] = ()
    """Newest Event of each controller whose pods a rule of the suite refused lately, the newest first."""
    without_right: Sequence[wire.WireEvent] = ()
    """Newest Events of the manager about namespaces in which it may not evict."""
    malformed_quotas: Mapping[str, str] = field(default_factory=dict)
    """Problem of the annotation mid-quota by namespace."""

    @property
    def is_empty(self) -> bool:
        """Check whether nothing of the suite was read."""
        installed = self.installation
        return self.nodes is None and not (installed and (installed.workloads or installed.outcome))

    def why_unread(self, what: str) -> str:
        """Return why objects were not read, in words; empty where they were."""
        whys = (f"you may not read {what}" if gap.is_right else gap.why for gap in self.unread if gap.what == what)
        return next((f"not read: {why}" for why in whys), "")


AGENT: Final = "koordlet"
MANAGER: Final = "koord-manager"
SCHEDULER: Final = "koord-scheduler"
ADMISSION: Final = "koord-admission"
PARTS: Final = {AGENT: "agent", MANAGER: "manager", SCHEDULER: "scheduler", ADMISSION: "admission"}
"""Title of each workload, by its label."""


def label(part: str) -> str:
    """Return the selector of the workload and the pods of a part."""
    return f"app.kubernetes.io/name={part}"


MID_LIMITS: Final = "koord-suite-mid-limits"
"""Webhook configuration, or policy and its binding, of the rules for new Mid pods."""
LONG: Final = dt.timedelta(minutes=5)
"""A pod that waits, or a node that is short, for less time needs no action."""
_MOST_OF_A_KIND: Final = 3
_MOST_OUTSIDE: Final = 0.5
"""Share of the predicted peak above which what runs outside of pods is the larger part."""
_LEAST_OUTSIDE: Final = 0.1
"""Share of the allocatable below which it is not worth a finding."""


@dataclass(frozen=True)
class Finding:
    """A finding about one object, or about several that have it in common."""

    kind: FindingKind
    objects: tuple[str, ...] = ()
    """Names of nodes; empty where the finding is about the installation."""
    detail: str = ""
    remedy: str = ""
    """What to do about these objects, where the kind alone does not state it."""

    @property
    def sentence(self) -> str:
        """Return what is found: `worker-05 and 2 more nodes: ...`."""
        return ": ".join(part for part in (self.subject, self.kind.sentence, self.detail) if part)

    @property
    def subject(self) -> str:
        """Return the nodes in words; empty without one."""
        if len(self.objects) < 2:
            return "".join(self.objects)
        more = len(self.objects) - 1
        return f"{self.objects[0]} and {more} more node{'s' if more > 1 else ''}"

    @property
    def fix(self) -> str:
        """Return what to do about the first of the objects."""
        if self.remedy:
            return self.remedy
        return self.kind.fix.replace("NODE", self.objects[0]) if self.objects else self.kind.fix


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity; among equals the order is kept."""
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.kind.severity))


def fleet_findings(snapshot: FleetSnapshot) -> list[Finding]:
    """Return the findings about nodes; more than a few of one kind are one finding."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for node in snapshot.nodes or ():
        for finding in node_findings(node, snapshot.usage_limits):
            groups[finding.kind.code].append(finding)
    findings: list[Finding] = []
    for group in groups.values():
        together = Finding(group[0].kind, tuple(finding.objects[0] for finding in group))
        findings += group if len(group) <= _MOST_OF_A_KIND else [together]
    return findings


def node_findings(node: NodeState, usage_limits: Mapping[str, float]) -> Iterator[Finding]:
    """Yield the findings about one node, notes among them; `usage_limits` are those of the cluster."""
    about = (node.name,)
    above = node.above(usage_limits).items()
    hot = [f"{resource} {used:.0f} %, limit {limit:g} %" for resource, (used, limit) in above]
    if hot:
        yield Finding(KINDS["NodesAboveThreshold"], about, ", ".join(hot))
    if node.short and (node.short_seconds is None or node.short_seconds >= LONG.total_seconds()):
        since = "" if node.short_seconds is None else f" for {times.short_age(node.short_seconds)}"
        lacks = " and ".join(f"{mid_resource.amount(mid, lack)} of {mid}" for mid, lack in node.short.items())
        yield Finding(KINDS["MidShort"], about, f"{lacks}{since}" + (f"; {node.eviction}" if node.eviction else ""))
    yield from _mostly_outside(node)
    if node.reason == Reason.COLOCATION_DISABLED and any(node.mid_requests):
        yield Finding(KINDS["ColocationOffWithMidPods"], about)
    for code, problem in node.problems:
        yield Finding(KINDS[code], about, problem)
    if node.has_node and (kind := KINDS.get(node.reason)):
        yield Finding(kind, about, node.detail)
    if node.closed and (kind := KINDS.get(node.closed)):
        yield Finding(kind, about)
    if node.clock_fault:
        yield Finding(KINDS["NodeClockWrong"], about, node.clock_fault)
    for node_condition in node.conditions:
        code = "NotReady" if node_condition.type == "Ready" else node_condition.type
        if kind := KINDS.get(code):
            yield Finding(kind, about, ": ".join(filter(None, (node_condition.reason, node_condition.message))))


def _mostly_outside(node: NodeState) -> Iterator[Finding]:
    """Yield the resources of which most of the predicted peak runs outside of pods, where it is worth a finding."""
    amounts = zip(names.MID_RESOURCES, node.system_peak, node.prod_peak, node.allocatable, strict=True)
    for mid, system, peak, whole in amounts:
        if system and peak and whole and system > max(peak * _MOST_OUTSIDE, whole * _LEAST_OUTSIDE):
            detail = f"{mid_resource.amount(mid, system)} of the {mid_resource.amount(mid, peak)} that are predicted"
            yield Finding(KINDS["SystemUsageReducesMid"], (node.name,), detail)


def configuration_findings(
    outcome: evaluation.ConfigOutcome | None, nodes: Iterable[NodeState] = ()
) -> Iterator[Finding]:
    """Yield the findings about the document; its absence is an error while Mid pods run."""
    if outcome is None:
        return
    problems = [problem.with_effect() for problem in outcome.problems]
    code = evaluation.reason(outcome)
    if code == evaluation.ABSENT:
        has_mid = any(any(node.mid_requests) for node in nodes)
        kind = KINDS[code]._replace(severity=Severity.ERROR) if has_mid else KINDS[code]
        yield Finding(kind, detail="; ".join(problems))
    elif code in (evaluation.REJECTED, evaluation.IGNORED):
        yield Finding(KINDS[code], detail="; ".join(problems[:_MOST_OF_A_KIND]))
    elif problems:
        yield Finding(KINDS[evaluation.ADVICE], detail="; ".join(problems[:_MOST_OF_A_KIND]))

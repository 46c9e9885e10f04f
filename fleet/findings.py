"""One snapshot of the cluster, as far as the caller may read it, and what needs attention in it. Pure."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from api_types import names
from fleet import wire
from fleet.finding_kinds import KINDS, FindingKind, Severity
from fleet.node_state import NodeState
from manager.slo_config import evaluation

LAST_GOOD_CONFIG: Final = "koord-manager-last-good-config"
"""ConfigMap in which the manager keeps the last valid document."""
VERSION_LABEL: Final = "app.kubernetes.io/version"


class Unread(NamedTuple):
    """Objects that were not read."""

    what: str
    """Such as `nodes`, or `leases/koord-manager`."""
    why: str
    is_right: bool = False
    """Whether a right is missing; otherwise the objects do not exist, or cannot be decoded."""


@dataclass(frozen=True)
class Installation:
    """Objects of the suite in its namespace; a workload that is not installed is absent."""

    namespace: str
    kubernetes: str = ""
    workloads: Mapping[str, wire.WireWorkload] = field(default_factory=dict)
    """koordlet, koord-manager and koord-scheduler."""
    leader: str = ""
    renewed: dt.datetime | None = None
    outcome: evaluation.ConfigOutcome | None = None
    """Configuration; None where it was not read."""
    config_map: str = names.SLO_CONTROLLER_CONFIG
    """ConfigMap that the manager reads."""
    kept_in: str = ""
    """ConfigMap of the last valid document."""

    def versions(self) -> Mapping[str, str]:
        """Return the version of each workload, by the label of the chart."""
        versions = {
            name: (workload.metadata.labels or {}).get(VERSION_LABEL, "") for name, workload in self.workloads.items()
        }
        return {name: version for name, version in versions.items() if version}

    def skew(self) -> str:
        """Return the version of each workload in words where they differ; empty where they are the same."""
        versions = self.versions()
        parts = [f"{name} {version}" for name, version in sorted(versions.items())]
        return ", ".join(parts) if len(set(versions.values())) > 1 else ""


@dataclass(frozen=True)
class FleetSnapshot:
    """Everything that was read. `nodes` is None where no list could be read."""

    time: dt.datetime
    server: str
    nodes: tuple[NodeState, ...] | None = None
    installation: Installation | None = None
    unread: tuple[Unread, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Check whether nothing of the suite was read."""
        installed = self.installation
        return self.nodes is None and not (installed and (installed.workloads or installed.outcome))

    def is_unread(self, what: str) -> bool:
        """Check whether objects could not be read."""
        return any(gap.what == what for gap in self.unread)


AGENT: Final = "koordlet"
MANAGER: Final = "koord-manager"
SCHEDULER: Final = "koord-scheduler"
_MOST_OF_A_KIND: Final = 3


@dataclass(frozen=True)
class Finding:
    """A finding about one object, or about several that have it in common."""

    kind: FindingKind
    objects: tuple[str, ...] = ()
    """Names of nodes; empty where the finding is about the installation."""
    detail: str = ""

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
        return self.kind.fix.replace("NODE", self.objects[0]) if self.objects else self.kind.fix


def find(snapshot: FleetSnapshot) -> list[Finding]:
    """Return all findings, the worst first; notes are left out."""
    everything = [*fleet_findings(snapshot.nodes or ())]
    if snapshot.installation:
        everything += installation_findings(snapshot.installation, snapshot)
    return by_severity(finding for finding in everything if finding.kind.severity is not Severity.NOTE)


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity; among equals the order is kept."""
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.kind.severity))


def fleet_findings(nodes: Iterable[NodeState]) -> list[Finding]:
    """Return the findings about nodes; more than a few of one kind are one finding."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for node in nodes:
        for finding in node_findings(node):
            groups[finding.kind.code].append(finding)
    findings: list[Finding] = []
    for group in groups.values():
        together = Finding(group[0].kind, tuple(finding.objects[0] for finding in group))
        findings += group if len(group) <= _MOST_OF_A_KIND else [together]
    return findings


def node_findings(node: NodeState) -> Iterator[Finding]:
    """Yield the findings about one node, notes among them."""
    about = (node.name,)
    if node.has_node and (kind := KINDS.get(node.reason)):
        yield Finding(kind, about, node.detail)
    if node.closed and (kind := KINDS.get(node.closed)):
        yield Finding(kind, about)
    if node.clock_fault:
        yield Finding(KINDS["NodeClockWrong"], about, node.clock_fault)
    for node_condition in node.conditions:
        code = "NotReady" if node_condition.type == "Ready" else node_condition.type
        if kind := KINDS.get(code):
            yield Finding(
                kind, about, ": ".join(part for part in (node_condition.reason, node_condition.message) if part)
            )


def installation_findings(installation: Installation, snapshot: FleetSnapshot) -> Iterator[Finding]:
    """Yield the findings about the installation that a snapshot shows; `check` has more."""
    agent, manager, scheduler = (installation.workloads.get(name) for name in (AGENT, MANAGER, SCHEDULER))
    if agent and not 0 < agent.wanted == agent.ready:
        ready, desired = agent.ready, agent.wanted
        yield Finding(KINDS["AgentsReady"], detail=f"ready on {ready} of {desired} nodes")
    if manager and not manager.ready:
        yield Finding(KINDS["ManagerReady"], detail=f"0 of {manager.wanted} ready")
    if scheduler and not scheduler.ready:
        yield Finding(KINDS["SchedulerReady"], detail=f"0 of {scheduler.wanted} ready")
    if manager and not installation.leader and not snapshot.is_unread(f"leases/{MANAGER}"):
        yield Finding(KINDS["Leader"], detail=f"the Lease {MANAGER} has no holder")
    if installation.skew():
        yield Finding(KINDS["VersionSkew"], detail=installation.skew())
    yield from configuration_findings(installation.outcome, snapshot.nodes or ())


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

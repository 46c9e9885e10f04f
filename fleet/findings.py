"""Find what needs attention in a snapshot: findings of the kinds in `finding_kinds`. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fleet.finding_kinds import KINDS, ORDER, FindingKind, Severity
from fleet.node_state import NodeState
from fleet.snapshot import FleetSnapshot, Installation
from manager.slo_config import condition, evaluation

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


def of(snapshot: FleetSnapshot) -> list[Finding]:
    """Return all findings, the worst first; notes are left out."""
    found = [*of_nodes(snapshot.nodes or ())]
    if snapshot.installation:
        found += of_installation(snapshot.installation, snapshot)
    return by_severity(each for each in found if each.kind.severity is not Severity.NOTE)


def by_severity(found: Iterable[Finding]) -> list[Finding]:
    """Sort by severity; among equals the order is kept."""
    return sorted(found, key=lambda each: ORDER[each.kind.severity])


def of_nodes(nodes: Iterable[NodeState]) -> list[Finding]:
    """Return the findings about nodes; more than a few of one kind are one finding."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for node in nodes:
        for finding in of_node(node):
            groups[finding.kind.code].append(finding)
    return [finding for group in groups.values() for finding in _grouped(group)]


def _grouped(group: Sequence[Finding]) -> Sequence[Finding]:
    if len(group) <= _MOST_OF_A_KIND:
        return group
    return [Finding(group[0].kind, tuple(each.objects[0] for each in group))]


def of_node(node: NodeState) -> Iterator[Finding]:
    """Yield the findings about one node, notes among them."""
    about = (node.name,)
    if node.has_node and (kind := KINDS.get(node.reason)):
        yield Finding(kind, about, node.detail)
    if node.closed and (kind := KINDS.get(node.closed)):
        yield Finding(kind, about)
    if node.clock_fault:
        yield Finding(KINDS["NodeClockWrong"], about, node.clock_fault)
    for each in node.conditions:
        code = "NotReady" if each.type == "Ready" else each.type
        if kind := KINDS.get(code):
            yield Finding(kind, about, ": ".join(part for part in (each.reason, each.message) if part))


def of_installation(found: Installation, snapshot: FleetSnapshot) -> Iterator[Finding]:
    """Yield the findings about the installation that a snapshot shows; `check` has more."""
    agent, manager, scheduler = (found.workloads.get(name) for name in (AGENT, MANAGER, SCHEDULER))
    if agent and not 0 < agent.wanted == agent.ready:
        ready, wanted = agent.ready, agent.wanted
        yield Finding(KINDS["AgentsReady"], detail=f"ready on {ready} of {wanted} nodes")
    if manager and not manager.ready:
        yield Finding(KINDS["ManagerReady"], detail=f"0 of {manager.wanted} ready")
    if scheduler and not scheduler.ready:
        yield Finding(KINDS["SchedulerReady"], detail=f"0 of {scheduler.wanted} ready")
    if manager and not found.leader and not snapshot.is_unread(f"leases/{MANAGER}"):
        yield Finding(KINDS["Leader"], detail=f"the Lease {MANAGER} has no holder")
    versions = found.versions()
    if len(set(versions.values())) > 1:
        detail = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
        yield Finding(KINDS["VersionSkew"], detail=detail)
    yield from of_configuration(found.outcome)


def of_configuration(outcome: evaluation.Outcome | None) -> Iterator[Finding]:
    """Yield the findings about the document."""
    if outcome is None:
        return
    problems = [each.with_effect() for each in outcome.problems]
    code = condition.reason(outcome)
    if code in (condition.REJECTED, condition.IGNORED):
        yield Finding(KINDS[code], detail="; ".join(problems[:_MOST_OF_A_KIND]))
    elif problems:
        yield Finding(KINDS[condition.ADVICE], detail="; ".join(problems[:_MOST_OF_A_KIND]))

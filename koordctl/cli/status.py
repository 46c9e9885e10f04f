"""Command `koordctl status`: what runs, what is measured, what Mid there is, and what is wrong."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from fleet import checks
from fleet.finding_kinds import Severity
from fleet.findings import ADMISSION, MANAGER, PARTS, AdmissionRules, Finding, FleetSnapshot, Installation
from fleet.node_state import Amounts, percent
from fleet.pod_state import total
from fleet.reading import Reader
from koordctl.cli import command, flags
from koordctl.cli.answer import (
    ERROR_SIGN,
    OK_SIGN,
    UNKNOWN,
    WARNING_SIGN,
    Answer,
    Column,
    Table,
    cores,
    gib,
    numbers,
    share,
)
from koordctl.cli.document import AnswerDocument, Part, ResourceAmounts, amounts

_SIGNS = {"error": f"{ERROR_SIGN} ERROR", "warning": f"{WARNING_SIGN} WARN"}


class Totals(Part):
    """Sums over the nodes."""

    allocatable: ResourceAmounts
    prod_requests: ResourceAmounts
    used: ResourceAmounts
    prod_peak: ResourceAmounts
    mid: ResourceAmounts
    mid_requests: ResourceAmounts


class StatusFinding(Part):
    """Something that is wrong."""

    code: str
    """As on the page of the findings."""
    severity: Severity
    objects: list[str]
    """Names of the objects that it is about."""
    sentence: str
    fix: str
    """What to do: a command, or a sentence."""
    page: str
    """Page of the documentation."""


class StatusDocument(AnswerDocument, tag="Status"):
    """Document of `koordctl status`."""

    server: str
    """Address of the API server."""
    namespace: str
    """Of the suite."""
    kubernetes: str
    """Version of the API server; empty where it was not read."""
    configuration: str
    """State of the configuration, as a sentence."""
    leader: str
    """Pod of the manager that leads; empty where none does."""
    versions: dict[str, str]
    """Version of each installed workload."""
    nodes: int
    measured_nodes: int
    """Nodes with a report."""
    totals: Totals
    checks: str
    """How many checks were made and how they ended, as a sentence."""
    findings: list[StatusFinding]


_TOTALS = Totals.__struct_fields__


def answer(snapshot: FleetSnapshot, notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `status`; it is no failure when something is wrong, `helm test` is for that."""
    installed = snapshot.installation or Installation("")
    results = list(checks.results(snapshot))
    problems, checked = checks.find(results), checks.summary(results)
    configuration = installed.configuration.removeprefix("the configuration is ")
    nodes = snapshot.nodes or ()
    measured = sum(node.has_report for node in nodes)
    count = f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"
    head = [
        f"{snapshot.server}, namespace {installed.namespace or UNKNOWN}, {snapshot.time:%H:%M:%S} UTC",
        f"Kubernetes {installed.kubernetes or UNKNOWN}, {count}, {measured} with a report",
        f"configuration: {configuration}",
    ]
    if learning := [node.calibrated_after for node in nodes if node.calibrated_after]:
        head.append(
            f"calibrated is not alone in force on {len(learning)} nodes, at most until {max(learning):%F %R} UTC"
        )
    totals = {name: total(getattr(node, name) for node in nodes) for name in _TOTALS}
    tables = [_parts(installed), _sums(totals)]
    if problems:
        tables.append(_findings(problems, installed.namespace))
    data = StatusDocument(
        server=snapshot.server,
        namespace=installed.namespace,
        kubernetes=installed.kubernetes,
        configuration=configuration,
        leader=installed.leader,
        versions=dict(installed.versions()),
        nodes=len(nodes),
        measured_nodes=measured,
        checks=checked,
        totals=Totals(**{name: amounts(amount) for name, amount in totals.items()}),
        findings=[
            StatusFinding(
                code=problem.kind.code,
                severity=problem.kind.severity,
                objects=list(problem.objects),
                sentence=problem.sentence,
                fix=_fix(problem, installed.namespace),
                page=problem.kind.page,
            )
            for problem in problems
        ],
    )
    return Answer(
        data,
        tables,
        [f"finding/{problem.kind.code}" for problem in problems],
        head,
        ["", *checked.split("; ")],
        notes=notes,
    )


def _parts(installed: Installation) -> Table:
    rows, styles = [], []
    for name, title in PARTS.items():
        workload = installed.workloads.get(name)
        if workload is None:
            is_policy = name == ADMISSION and installed.admission == AdmissionRules("policy")
            state = "a policy does its work" if is_policy else "not found"
            rows.append((OK_SIGN if is_policy else UNKNOWN, title, name, UNKNOWN, UNKNOWN, state))
            styles.append("")
            continue
        ready, replicas = workload.ready, workload.wanted
        is_ready = 0 < ready == replicas
        leader = f"leader {installed.leader}" if name == MANAGER and installed.leader else ""
        state = leader if is_ready else "; ".join(part for part in ("not all ready", leader) if part)
        version, shown = installed.versions().get(name, UNKNOWN), workload.metadata.name
        rows.append((OK_SIGN if is_ready else WARNING_SIGN, title, shown, f"{ready} of {replicas}", version, state))
        styles.append("" if is_ready else "warning")
    titles = (Column(title) for title in ("PART", "OBJECT", "READY", "VERSION", "STATE"))
    return Table([Column("", is_drawing=True), *titles], rows, styles)


def _sums(totals: dict[str, Amounts]) -> Table:
    rows = []
    for resource, unit, shown in (("cpu", "CPU cores", cores), ("memory", "memory GiB", gib)):
        whole = getattr(totals["allocatable"], resource)
        cells = [unit, shown(whole)]
        for name in _TOTALS[1:]:
            part = getattr(totals[name], resource)
            cells.append(f"{shown(part)} ({share(percent(part, whole))})")
        rows.append(tuple(cells))
    return Table([Column(""), *numbers("ALLOC", "PROD REQ", "USED", "PROD PEAK", "MID", "MID REQ")], rows)


def _fix(problem: Finding, namespace: str) -> str:
    return problem.fix.replace("NAMESPACE", namespace)


def _findings(problems: Sequence[Finding], namespace: str) -> Table:
    """Return two rows for each finding: what is found, and what to do."""
    columns = [Column(title) for title in ("SEVERITY", "CODE", "FINDING, AND WHAT TO DO")]
    rows, styles = [], []
    for problem in problems:
        rows.append((_SIGNS[problem.kind.severity], problem.kind.code, problem.sentence))
        rows.append(("", "", f"-> {_fix(problem, namespace)}"))
        styles += [problem.kind.severity.value, ""]
    return Table(columns, rows, styles)


PARAMETERS = (*flags.READING, *flags.WATCH, flags.NAMESPACE)


@command.reads()
async def run(reader: Reader, options: Namespace) -> Answer:
    """Read, and return the answer."""
    snapshot = await reader.snapshot(options.namespace)
    if snapshot.is_empty:
        raise command.nothing_read(reader)
    named = (unread for unread in reader.unread if unread.is_right or unread.what == "nodemetrics")
    return answer(snapshot, command.notes(named))

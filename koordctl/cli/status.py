"""`koordctl status`: what runs, what is measured, what Mid there is, and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet import findings
from fleet.findings import AGENT, MANAGER, SCHEDULER, Finding
from fleet.node_state import Amounts, NodeState, percent
from fleet.pod_state import total
from fleet.snapshot import Installation, Snapshot
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
    share,
)
from koordctl.cli.top import amounts
from manager.slo_config import condition

_SIGNS = {"error": f"{ERROR_SIGN} ERROR", "warning": f"{WARNING_SIGN} WARN"}
_TOTALS = ("allocatable", "prod_requests", "used", "prod_peak", "mid", "mid_requests")


def answer(snapshot: Snapshot, notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `status`; it is no failure when something is wrong, `helm test` is for that."""
    installed = snapshot.installation or Installation("")
    found = findings.of(snapshot)
    nodes = snapshot.nodes or ()
    measured = sum(node.has_report for node in nodes)
    head = [
        f"{snapshot.server}, namespace {installed.namespace or UNKNOWN}, {snapshot.time:%H:%M:%S} UTC",
        f"Kubernetes {installed.kubernetes or UNKNOWN}, {len(nodes)} nodes, {measured} with a report",
        f"configuration: {_configuration(installed)}",
    ]
    totals = {name: total(getattr(node, name) for node in nodes) for name in _TOTALS}
    tables = [_parts(installed), _sums(totals)]
    if found:
        tables.append(_findings(found, installed.namespace))
    return Answer(
        "Status",
        {"server": snapshot.server, "namespace": installed.namespace} | _document(installed, nodes, totals, found),
        tables,
        [f"finding/{each.kind.code}" for each in found],
        head,
        [] if found else ["", "nothing is wrong in what was read"],
        notes=notes,
    )


def _configuration(installed: Installation) -> str:
    if installed.outcome is None:
        return "not read"
    return condition.summary(installed.outcome, kept_in=installed.kept_in).removeprefix("the configuration is ")


def _parts(installed: Installation) -> Table:
    rows, styles = [], []
    for name, title in ((AGENT, "agent"), (MANAGER, "manager"), (SCHEDULER, "scheduler")):
        workload = installed.workloads.get(name)
        if workload is None:
            rows.append((UNKNOWN, title, name, UNKNOWN, UNKNOWN, "not found"))
            styles.append("")
            continue
        status = workload.status
        ready = status.number_ready if name == AGENT else status.ready_replicas
        wanted = status.desired_number_scheduled if name == AGENT else status.replicas
        is_ready = 0 < ready == wanted
        leader = f"leader {installed.leader}" if name == MANAGER and installed.leader else ""
        state = leader if is_ready else "; ".join(part for part in ("not all ready", leader) if part)
        version = installed.versions().get(name, UNKNOWN)
        rows.append((OK_SIGN if is_ready else WARNING_SIGN, title, name, f"{ready} of {wanted}", version, state))
        styles.append("" if is_ready else "warning")
    return Table([Column(title) for title in ("", "PART", "OBJECT", "READY", "VERSION", "")], rows, styles)


def _sums(totals: dict[str, Amounts]) -> Table:
    titles = ("ALLOC", "PROD REQ", "USED", "PROD PEAK", "MID", "MID REQ")
    rows = []
    for resource, unit, shown in (("cpu", "CPU cores", cores), ("memory", "memory GiB", gib)):
        whole = getattr(totals["allocatable"], resource)
        cells = [unit, shown(whole)]
        for name in _TOTALS[1:]:
            part = getattr(totals[name], resource)
            cells.append(f"{shown(part)} ({share(percent(part, whole))})")
        rows.append(tuple(cells))
    return Table([Column(""), *(Column(title, right=True) for title in titles)], rows)


def _fix(found: Finding, namespace: str) -> str:
    return found.fix.replace("NAMESPACE", namespace)


def _findings(found: Sequence[Finding], namespace: str) -> Table:
    """Return two rows for each finding: what is found, and what to do."""
    columns = [Column(title) for title in ("SEVERITY", "CODE", "FINDING, AND WHAT TO DO")]
    rows, styles = [], []
    for each in found:
        rows.append((_SIGNS[each.kind.severity], each.kind.code, each.sentence))
        rows.append(("", "", f"-> {_fix(each, namespace)}"))
        styles += [each.kind.severity.value, ""]
    return Table(columns, rows, styles)


def _document(
    installed: Installation, nodes: Sequence[NodeState], totals: dict[str, Amounts], found: Sequence[Finding]
) -> dict[str, Any]:
    return {
        "kubernetes": installed.kubernetes,
        "configuration": _configuration(installed),
        "leader": installed.leader,
        "versions": dict(installed.versions()),
        "nodes": len(nodes),
        "measuredNodes": sum(node.has_report for node in nodes),
        "totals": {name: amounts(each) for name, each in totals.items()},
        "findings": [
            {
                "code": each.kind.code,
                "severity": each.kind.severity.value,
                "objects": list(each.objects),
                "sentence": each.sentence,
                "fix": _fix(each, installed.namespace),
                "page": each.kind.page,
            }
            for each in found
        ],
    }

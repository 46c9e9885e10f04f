"""Page Health: is it installed right, and what is in force? Pure."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from typing import Any, Final

from console.cluster.details import Listed
from console.pages import shown
from console.view import FleetView
from fleet import checks, wire
from fleet.findings import ADMISSION, AGENT, MANAGER, PARTS, AdmissionRules, Installation

_MOST_EVENTS: Final = 20
_LONGEST_DOCUMENT: Final = 20_000


def context(view: FleetView, events: Listed[wire.WireEvent], namespace: str, now: dt.datetime) -> dict[str, Any]:
    """Return the values of the template."""
    snapshot = view.snapshot
    installed = (snapshot.installation if snapshot else None) or Installation(namespace)
    count = len(view.findings)
    return {
        "headline": f"{count} finding{'' if count == 1 else 's'}" if count else checks.summary(view.checks),
        "checked": checks.summary(view.checks),
        "parts": [_part(installed, name, title, now) for name, title in PARTS.items()],
        "kubernetes": installed.kubernetes or shown.UNKNOWN,
        "configuration": installed.configuration,
        "document": _document(installed),
        "findings": shown.items(view.findings, namespace),
        "left_out": [gap for gap in (snapshot.unread if snapshot else ()) if not gap.is_right and "/" not in gap.what],
        "events": shown.events((events.items or ())[:_MOST_EVENTS], now),
        "events_unread": events.items is None,
        "reports": sum(node.has_report for node in view.nodes),
        "nodes": len(view.nodes),
        "read_seconds": f"{view.read_seconds:.1f} s",
    }


def _document(installed: Installation) -> str:
    """Return the document of the users, indented."""
    text = (installed.outcome.text if installed.outcome else None) or ""
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), indent=2)
    return text[:_LONGEST_DOCUMENT]


def _part(installed: Installation, name: str, title: str, now: dt.datetime) -> dict[str, Any]:
    workload = installed.workloads.get(name)
    values = {"title": title, "name": installed.name(name), "ready": "", "version": "", "more": ""}
    if name == ADMISSION and installed.admission == AdmissionRules("policy"):
        return {**values, "style": "ok", "sign": "✔", "word": "a policy does its work"}
    if workload is None:
        return {**values, "style": "off", "sign": shown.UNKNOWN, "word": "not found"}
    ready, desired = workload.ready, workload.wanted
    style, sign, word = ("ok", "✔", "ready") if 0 < ready == desired else ("bad", "✘", "not ready")
    if 0 < ready < desired and name != AGENT:
        style, sign, word = "warn", "!", "degraded"
    if name == MANAGER and installed.leader:
        renewed = shown.age((now - installed.renewed).total_seconds()) if installed.renewed else shown.UNKNOWN
        values["more"] = f"leader {installed.leader}, renewed {renewed} ago"
    version = installed.versions().get(name, shown.UNKNOWN)
    return {**values, "style": style, "sign": sign, "word": word, "ready": f"{ready} of {desired}", "version": version}

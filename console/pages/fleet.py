"""Page Fleet: is the cluster well used, and what needs attention? Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from console.pages import shown
from console.pages.shown import BarLane, part
from console.view import FleetView
from fleet import checks
from fleet.node_state import Amounts, NodeState, percent

PAGE_SIZE: Final = 50
_BINS: Final = 20
_MOST_FINDINGS: Final = 8
_LONGEST_QUERY: Final = 253  # a name of an object
SORTS: Final[dict[str, Callable[[NodeState], Any]]] = {
    "used": lambda node: shown.descending(node.used_percent("cpu")),
    "memory": lambda node: shown.descending(node.used_percent("memory")),
    "peak": lambda node: shown.descending(percent(node.prod_peak.cpu, node.allocatable.cpu)),
    "requests": lambda node: shown.descending(percent(node.prod_requests.cpu, node.allocatable.cpu)),
    "Mid": lambda node: shown.descending(node.mid.cpu),
    "report age": lambda node: shown.descending(node.sample_age_seconds),
    "name": lambda node: node.name,
}
"""Orders of the table; what is not known comes last."""


def context(view: FleetView, query: str, sort: str, page: str, namespace: str) -> dict[str, Any]:
    """Return the values of the template."""
    nodes = view.nodes
    filter_text = query[:_LONGEST_QUERY].strip()
    matching = [node for node in nodes if filter_text.lower() in node.name.lower() or filter_text == node.reason]
    order = sort if sort in SORTS else "used"
    ordered = sorted(matching, key=lambda node: (SORTS[order](node), node.name))
    chosen = shown.paging(len(ordered), page, PAGE_SIZE)
    attention = view.findings
    return {
        "headline": headline(view),
        "resources": [_lanes(view.totals, resource) for resource in ("cpu", "memory")],
        "findings": shown.items(attention[:_MOST_FINDINGS], namespace),
        "more_findings": max(len(attention) - _MOST_FINDINGS, 0),
        "bins": _bins(nodes),
        "limit": view.usage_limit_percent,
        "checked": checks.summary(view.checks),
        "rows": _rows(ordered[chosen.rows]),
        "first": chosen.rows.start + 1,
        "matching": len(ordered),
        "page": chosen.number,
        "pages": chosen.pages,
        "q": filter_text,
        "sort": order,
        "sorts": list(SORTS),
    }


def headline(view: FleetView) -> str:
    """Return the state of the fleet in one sentence."""
    nodes = view.nodes
    count = f"{len(nodes):,} node{'' if len(nodes) == 1 else 's'}"
    whole, used, mid = (view.totals[name].cpu for name in ("allocatable", "used", "mid"))
    if not nodes or used is None:
        return f"{count}, no usage is known yet"
    verb = "uses" if len(nodes) == 1 else "use"
    have = "has" if len(nodes) == 1 else "have"
    return f"{count} {verb} {shown.cores(used)} of {shown.cores(whole)} cores and {have} {shown.cores(mid)} of Mid"


def _lanes(totals: Mapping[str, Amounts], resource: str) -> dict[str, Any]:
    """Return the sums of one resource, each as a bar on the same scale."""
    sums = {name: getattr(amounts, resource) for name, amounts in totals.items()}
    whole = sums["allocatable"]
    shares = {name: percent(value, whole) for name, value in sums.items()}
    prod, mid, used = shares["prod_used"] or 0.0, shares["mid_used"] or 0.0, shares["used"] or 0.0
    usage = [part("prod", 0, prod), part("mid", prod, mid), part("other", prod + mid, used - prod - mid)]
    lanes = (
        ("Prod requests", "prod_requests", [part("request", 0, shares["prod_requests"])]),
        ("used", "used", usage),
        ("predicted peak of Prod", "prod_peak", [part("peak", 0, shares["prod_peak"])]),
        ("Mid", "mid", [part("mid", 0, shares["mid"])]),
        ("Mid requested", "mid_requests", [part("mid-request", 0, shares["mid_requests"])]),
    )
    amounts = shown.column([sums[key] for _, key, _ in lanes], resource)
    return {
        "name": "CPU" if resource == "cpu" else "Memory",
        "unit": "cores" if resource == "cpu" else "GiB",
        "whole": shown.amount(whole, resource),
        "lanes": [
            BarLane(name, amount, shown.percent_text(shares[key]), parts)
            for (name, key, parts), amount in zip(lanes, amounts, strict=True)
        ],
    }


def _bins(nodes: Sequence[NodeState]) -> list[int]:
    """Count the nodes by usage of CPU, in bins of 5 %; the last one has those above too."""
    counts = [0] * _BINS
    for node in nodes:
        used = node.used_percent("cpu")
        if used is not None:
            counts[min(max(int(used * _BINS / 100), 0), _BINS - 1)] += 1
    return counts


def _rows(nodes: Sequence[NodeState]) -> list[dict[str, Any]]:
    mid = shown.each_cores(node.mid.cpu for node in nodes)
    requested = shown.each_cores(node.mid_requests.cpu for node in nodes)
    return [
        {
            "name": node.name,
            "bar": shown.usage_bar(node),
            "used": shown.percent_text(node.used_percent("cpu")),
            "requests": shown.percent_text(percent(node.prod_requests.cpu, node.allocatable.cpu)),
            "peak": shown.percent_text(percent(node.prod_peak.cpu, node.allocatable.cpu)),
            "mid": mid[row],
            "mid_requests": requested[row],
            "memory": shown.percent_text(node.used_percent("memory")),
            "sample": node.sample,
            "sign": shown.mid_sign(node),
        }
        for row, node in enumerate(nodes)
    ]

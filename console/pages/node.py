"""Page Node: why does this node have so much Mid, or none? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from api_types import names
from api_types.node_metric import evaluation_report
from console.cluster.details import DetailedReport, NodeDetail
from console.history.memory import History
from console.pages import prediction, shown
from console.pages.shown import part
from console.view import FleetView
from fleet import findings, node_state
from fleet.node_state import Amounts, NodeState, TermsByName, native_amounts, percent
from fleet.pod_state import PodState
from manager.mid_resource.explanation import Explanation

_TERMS: Final[Mapping[str, tuple[str, str]]] = {
    "allocated_prod": ("", "Prod pods request"),
    "peak_prod": ("−", "predicted peak of Prod"),  # noqa: RUF001  # a minus sign, as wide as the equals sign
    "reclaimable": ("=", "reclaimable"),
    "cap": ("≤", "cap"),
    "unallocated_share": ("+", "share of what no pod requests"),
    "unused": ("≤", "used by nothing but Mid"),
    "usable": ("≤", "used without an eviction"),
    "total_limit": ("≤", "cap on the sum"),
    "calculated": ("=", "calculated; new Mid pods are admitted up to it"),
    "floor": ("≥", "floor: Mid that running pods request"),
    "rise_limit": ("≤", "largest value of one update"),
    "published": ("=", "Mid on the node"),
}
"""Terms of the sum, and how each enters it; the others are inputs."""
_STYLES: Final = {"allocated_prod": "request", "peak_prod": "peak", "published": "mid", "calculated": "mid"}
_MOST_PODS: Final = 100
_MOST_POINTS: Final = 60
_STATISTICS: Final = ("avg", "p50", "p90", "p95", "p99")
_PEAK_TERMS: Final = (
    ("class_peak", "from the usage of all Prod pods and the system together"),
    ("pod_sum_peak", "sum of the peaks of the warm pods"),
    ("cold_requests", "requests of the cold pods"),
    ("system_peak", "system usage beyond what the node reserves"),
    ("peak", "reported peak"),
)


def context(
    node: NodeState, detail: NodeDetail | None, view: FleetView, history: History, namespace: str
) -> dict[str, Any]:
    """Return the values of the template; `detail` is None where it could not be read."""
    read = detail or NodeDetail()
    report = read.report or DetailedReport()
    limits = view.snapshot.usage_limits if view.snapshot else {}
    about = findings.by_severity(findings.node_findings(node, limits))
    return {
        "node": node,
        "headline": _headline(node, read.explanation),
        "sign": shown.mid_sign(node),
        "closed": read.explanation.closed if read.explanation else "",
        "newest": _newest(read.explanation),
        "eviction": read.explanation.eviction if read.explanation else (),
        "findings": shown.items((finding for finding in about if not shown.is_fine(finding)), namespace),
        "bar": shown.usage_bar(node),
        "limit": view.usage_limit_percent,
        "facts": _facts(node),
        "sums": list(_sums(node, read)),
        "charts": [
            {
                "id": resource,
                "unit": unit,
                "points": shown.thinned(history.node_points(node.name, resource), _MOST_POINTS),
            }
            for resource, unit in (("cpu", "cores"), ("memory", "GiB"))
        ],
        "windows": list(_windows(node, report)),
        "statistics": _STATISTICS,
        "peak_terms": _peak_terms(report),
        "prediction": report.prediction,
        "scores": prediction.node_scores(evaluation_report.pack(report.prediction.evaluation))
        if report.prediction and report.prediction.evaluation
        else [],
        "pods": _pods(read.pods or ()),
        "pod_count": len(read.pods or ()),
        "pods_unread": read.pods is None,
        "unread": [gap for gap in read.unread if gap.is_right],
    }


def _headline(node: NodeState, explanation: Explanation | None) -> str:
    """Return the Mid of the node; that of the explanation is newer than the snapshot."""
    mid = node.mid
    if explanation:
        resources = (explanation.resources.get(name) for name in names.MID_RESOURCES)
        mid = Amounts(*(resource.published if resource else None for resource in resources))
    if mid.cpu is None:
        return f"{node.name} has no Mid"
    cpu, memory = shown.cores(mid.cpu), shown.gib(mid.memory)
    return f"{node.name} has {cpu} cores and {memory} GiB of Mid"


def _newest(explanation: Explanation | None) -> str:
    if explanation is None or not explanation.newest_reason:
        return ""
    detail = f": {explanation.newest_detail}" if explanation.newest_detail else ""
    return f"The newest report would lead to: {explanation.newest_text}{detail} ({explanation.newest_reason})."


def _facts(node: NodeState) -> list[tuple[str, str]]:
    pods = shown.UNKNOWN
    if node.warm_pods is not None:
        pods = f"{node.warm_pods} warm, {node.borrowed_pods} borrowed, {node.cold_pods} cold"
    return [
        ("CPU used", f"{shown.cores(node.used.cpu)} of {shown.cores(node.allocatable.cpu)} cores"),
        ("memory used", f"{shown.gib(node.used.memory)} of {shown.gib(node.allocatable.memory)} GiB"),
        ("Mid requested", f"{shown.cores(node.mid_requests.cpu)} cores, {shown.gib(node.mid_requests.memory)} GiB"),
        ("predictor", f"{node.predictor or shown.UNKNOWN}; {pods}"),
    ]


def _sums(node: NodeState, detail: NodeDetail) -> Iterator[dict[str, Any]]:
    """Yield the sum of each Mid resource, term by term, as bars on one scale."""
    amounts = zip(names.MID_RESOURCES, (names.CPU, names.MEMORY), node.allocatable, node.system_peak, strict=True)
    for mid, resource, whole, system in amounts:
        explanation = detail.explanation
        terms = explanation.resources[mid].terms if explanation and mid in explanation.resources else ()
        yield {
            "name": "CPU" if resource == "cpu" else "Memory",
            "unit": "cores" if resource == "cpu" else "GiB",
            "resource": mid,
            "terms": _terms({term.term: term for term in terms}, detail.layers, resource, whole, system),
            "inputs": [term for term in terms if term.term not in _TERMS],
        }


def _terms(
    terms: TermsByName, layers: Mapping[str, str], resource: str, whole: int | None, system: int | None
) -> list[dict[str, Any]]:
    listed = [term for term in terms.values() if term.term in _TERMS]
    amounts = shown.column([term.value for term in listed], resource)
    (outside,) = shown.column([system], resource)
    more = {"peak_prod": f"; {outside} of it outside of pods, not reserved"} if system is not None else {}
    return [
        {
            "sign": _TERMS[term.term][0],
            "name": _TERMS[term.term][1],
            "amount": amount,
            "part": part(_STYLES.get(term.term, "term"), 0, percent(term.value, whole)),
            "origin": node_state.term_origin(term, layers) + more.get(term.term, ""),
            "is_result": term.term == "published",
        }
        for term, amount in zip(listed, amounts, strict=True)
    ]


def _windows(node: NodeState, report: DetailedReport) -> Iterator[tuple[str, list[str]]]:
    usages = report.node_metric.aggregated_node_usages if report.node_metric else None
    for window in (usages or ())[:8]:
        usage = window.usage or {}
        cells = [native_amounts(usage[name].resources).cpu if name in usage else None for name in _STATISTICS]
        yield (
            window.duration or shown.UNKNOWN,
            [shown.percent_text(percent(cell, node.allocatable.cpu)) for cell in cells],
        )


def _peak_terms(report: DetailedReport) -> list[tuple[str, str, str]]:
    prod = report.prediction.prod if report.prediction else None
    reported = [(text, value) for field, text in _PEAK_TERMS if (value := getattr(prod, field, None))]
    amounts = [native_amounts(value) for _, value in reported]
    cpu = shown.column([amount.cpu for amount in amounts])
    memory = shown.column([amount.memory for amount in amounts], "memory")
    return list(zip((text for text, _ in reported), cpu, memory, strict=True))


def _pods(pods: Sequence[PodState]) -> list[dict[str, str]]:
    """Return the pods that use most CPU, the largest first."""
    pods = sorted(pods, key=lambda pod: (shown.descending(pod.used.cpu), pod.namespace, pod.name))[:_MOST_PODS]
    columns = {
        "requests": shown.each_cores(pod.requests.cpu for pod in pods),
        "used": shown.each_cores(pod.used.cpu for pod in pods),
        "slack": shown.each_cores(pod.slack.cpu for pod in pods),
        "memory_requests": shown.column([pod.requests.memory for pod in pods], "memory", 1),
        "memory_used": shown.column([pod.used.memory for pod in pods], "memory", 1),
    }
    return [
        {
            "namespace": pod.namespace,
            "name": pod.name,
            "band": pod.band.title(),
            **{name: column[row] for name, column in columns.items()},
        }
        for row, pod in enumerate(pods)
    ]

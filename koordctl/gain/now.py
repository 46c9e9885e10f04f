"""What the cluster shows now about Mid resources, without any history."""

from __future__ import annotations

from collections import Counter
from typing import Final

from api_types.node_metric import evaluation_report
from fleet import node_state, pod_state
from fleet.node_state import NodeState
from fleet.reading import Reader
from koordctl.gain.gains import Gain, GainForecasts, GainSums, NamespaceMidUse
from manager.mid_resource.reasons import STATUS, Reason, Status

NEEDS_HISTORY: Final = (
    "core-hours, GiB-hours, evictions, suppressed CPU and the time above the predicted peak need a Prometheus that "
    "scrapes the suite: --prometheus URL"
)
_CHOSEN: Final = (Reason.COLOCATION_DISABLED, Reason.SHADOW)


async def read(reader: Reader) -> Gain | None:
    """Read nodes, reports and pods; None where neither nodes nor reports may be read."""
    nodes, reports = list[NodeState](), list[evaluation_report.Packed]()
    async for name, node, metric in reader.pairs():
        nodes.append(node_state.combine(name, node, metric, reader.now))
        prediction = metric.status.prediction if metric and metric.status else None
        if prediction is not None:
            reports.append(evaluation_report.pack(prediction.evaluation or ()))
    if {"nodes", "nodemetrics"} <= {unread.what for unread in reader.unread}:
        return None
    namespaces = await reader.namespaces(band="mid")
    missing = [NEEDS_HISTORY]
    if namespaces is None:
        missing.append("namespaces: pods may not be read")
    return Gain(
        "the cluster",
        offered=_amounts(pod_state.total(node.mid for node in nodes)),
        allocatable=_amounts(pod_state.total(node.allocatable for node in nodes)),
        namespaces={
            use.name: NamespaceMidUse(_amounts(use.mid_requests), _amounts(use.mid_used)) for use in namespaces or ()
        },
        forecasts=[
            GainForecasts(predictor, resource, forecast.violation_ratio, forecast.savings_ratio)
            for (predictor, resource), forecast in sorted(evaluation_report.combined(reports).items())
        ],
        withdrawn=_withdrawn(nodes),
        missing=missing,
    )


def _amounts(amounts: node_state.Amounts) -> GainSums:
    return GainSums(None if amounts.cpu is None else amounts.cpu / 1000, amounts.memory)


def _withdrawn(nodes: list[NodeState]) -> dict[str, float]:
    bad = {reason.value for reason in Reason if STATUS[reason] is not Status.CALCULATED and reason not in _CHOSEN}
    return dict(Counter(node.reason for node in nodes if node.reason in bad | {Reason.CALCULATED_WITHOUT_PREDICTION}))

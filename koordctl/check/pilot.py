"""Exit criteria of the stages of a pilot: whether the next one may begin (docs/how-to/pilot.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from api_types.kubernetes import pods
from api_types.kubernetes.priority_and_qos import PriorityClass, priority_class
from api_types.node_metric import evaluation_report
from api_types.node_metric.evaluation_report import SEASONED_FORECASTS, TARGET_PERCENT
from apiserver_client import objects, resources
from fleet.checks import CheckVerdict, failed, first, passed
from fleet.node_state import NodeState
from fleet.reading import Reader

STAGES: Final = ("observe", "pool", "all")
"""Names of the values files in charts/koord-suite/pilot."""
_POOL: Final = "koord-suite.io/pilot=true"
_CODE: Final = "PilotStage"
_EVICTED: Final = "reserve more for Prod; delete these pods if they are older than the stage"


async def results(reader: Reader, stage: str, all_nodes: Sequence[NodeState]) -> list[CheckVerdict]:
    """Return one result for each criterion of a stage. Raises errors.ApiServerError."""
    nodes = all_nodes if stage == "all" else await reader.nodes(_POOL) or ()
    if stage == "all":  # a virtual node has no agent
        nodes = tuple(node for node in nodes if node.has_report)
    if not nodes:
        return [failed(_CODE, "no node of the pilot was read", f"kubectl label node NODE {_POOL}")]
    verdicts = [_seasoned(nodes), *_violations(nodes)]
    if stage != STAGES[0]:
        verdicts += [*_mid(nodes), await _evicted(reader, {node.name for node in nodes})]
    return verdicts


def _verdict(wrong: Sequence[str], problem: str, fine: str, remedy: str = "") -> CheckVerdict:
    return failed(_CODE, f"{problem}: {first(wrong)}", remedy) if wrong else passed(_CODE, fine)


def _scores(nodes: Sequence[NodeState]) -> dict[str, evaluation_report.Fleet]:
    """Return the scores of the predictors in force over nodes, by resource."""
    reports = [
        evaluation_report.in_force(node.evaluation) for node in nodes if node.evaluation and node.evaluation.predictors
    ]
    return {resource: fleet for (_, resource), fleet in evaluation_report.combined(reports).items()}


def _least_forecasts(node: NodeState) -> float:
    scores = _scores([node])
    return min((scores[resource].forecasts if resource in scores else 0.0) for resource in TARGET_PERCENT)


def _seasoned(nodes: Sequence[NodeState]) -> CheckVerdict:
    counts = {node.name: _least_forecasts(node) for node in nodes}
    few = [f"{name} has {count:.0f}" for name, count in counts.items() if count < SEASONED_FORECASTS]
    wanted = f"{SEASONED_FORECASTS:g} forecasts"
    return _verdict(few, f"{len(few)} of {len(nodes)} nodes have no {wanted} yet", f"{len(nodes)} nodes have {wanted}")


def _violations(nodes: Sequence[NodeState]) -> Iterator[CheckVerdict]:
    for resource, fleet in _scores(nodes).items():
        text = f"usage of {resource} was above the peak in {100 * fleet.violation_ratio:.2f} % of the forecasts"
        limit = TARGET_PERCENT[resource]
        is_fine = 100 * fleet.violation_ratio <= limit
        yield (
            passed(_CODE, text) if is_fine else failed(_CODE, f"{text}, want at most {limit:g} %", "koordctl backtest")
        )


def _mid(nodes: Sequence[NodeState]) -> Iterator[CheckVerdict]:
    used = [node for node in nodes if any(node.mid_requests)]
    text = f"Mid pods run on {len(used)} of {len(nodes)} nodes"
    yield passed(_CODE, text) if used else failed(_CODE, text, "run some: koordctl convert")
    short = [node.name for node in nodes if node.short]
    yield _verdict(short, "short of Mid", "no node is short of Mid", "koordctl explain node NODE")


async def _evicted(reader: Reader, nodes: set[str]) -> CheckVerdict:
    listed = await objects.list_all(reader.api, resources.PODS, field_selector="status.phase=Failed")
    by_kubelet = (msgspec.convert(raw, pods.Pod) for raw in listed.items if raw["status"].get("reason") == "Evicted")
    evicted = [
        f"{pod.metadata.namespace}/{pod.metadata.name}"
        for pod in by_kubelet
        if pod.spec.node_name in nodes and priority_class(pod) is PriorityClass.PROD
    ]
    return _verdict(evicted, "Prod pods evicted by a kubelet", "no Prod pod was evicted by a kubelet", _EVICTED)

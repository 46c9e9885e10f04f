"""Explain a decision: for each node its result, the inputs, and one sentence. Pure.

Amounts are integers: cpu in milli-cores, all else in base units. Times are seconds since the epoch.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from api_types import names
from scheduler_plugin.decisions import pages
from scheduler_plugin.decisions.recorder import RecordedDecision
from scheduler_plugin.framework.interface import PluginInputs
from scheduler_plugin.plugins.load_aware.plugin import usage_percent
from scheduler_plugin.plugins.trimaran.node_columns import FallbackLevel


class NodeResult(enum.StrEnum):
    """Result of one node, in the order of the page."""

    CHOSEN = "chosen"
    PASSED = "passed"
    REJECTED = "rejected"


_ORDER: Final = list(NodeResult)


class _Candidate(NamedTuple):
    """One node of the call; `position` in its arrays."""

    position: int
    result: NodeResult
    score: int | None


_FALLBACKS: Final = {
    FallbackLevel.BY_REQUESTS: "no node is measured, scored by requests",
    FallbackLevel.PREDICTED: "not measured yet, scored by the expected usage of its new pods",
    FallbackLevel.UNKNOWN: "not measured although pods run on it, lowest score",
}


def page(
    key: str,
    decisions: Sequence[RecordedDecision],
    plugins: Sequence[str],
    resources: Sequence[str],
    most_nodes: int = 0,
) -> dict[str, Any]:
    """Describe the decisions on one pod, newest first, each with at most `most_nodes` nodes; 0: all.

    `plugins` has the plugin of each reason code; code - 1 is the index.
    """
    return {"pod": key, "decisions": [_decision(decision, plugins, resources, most_nodes) for decision in decisions]}


def index(decisions: Sequence[RecordedDecision]) -> list[dict[str, Any]]:
    """List the decisions, one entry each, to find pods that have a page."""
    return [
        {
            "pod": decision.pod.key,
            "at": decision.at,
            "nodesAsked": decision.asked,
            "nodesPassed": decision.passed,
            "node": decision.node or None,
        }
        for decision in decisions
    ]


def _decision(
    decision: RecordedDecision, plugins: Sequence[str], resources: Sequence[str], most_nodes: int
) -> dict[str, Any]:
    candidates = sorted(_candidates(decision), key=lambda node: (_ORDER.index(node.result), -(node.score or 0)))
    shown = candidates[: most_nodes or None]
    chosen_score = candidates[0].score if candidates and candidates[0].result is NodeResult.CHOSEN else None
    pod = decision.pod
    return {
        "at": decision.at,
        "uid": pod.uid,
        "isProd": pod.is_prod,
        "isPinned": pod.is_pinned,
        "estimate": None if pod.estimate is None else pages.amounts(pod.estimate, resources),
        "waitedForLoadSeconds": pod.waited_seconds or None,
        "midRequests": {"cpuMillis": pod.mid_cpu_millis, "memoryBytes": pod.mid_memory_bytes},
        "nodesAsked": decision.asked,
        "nodesPassed": decision.passed,
        "node": decision.node or None,
        "outcome": _outcome(decision),
        "nodes": [_node(decision, candidate, chosen_score, plugins, resources) for candidate in shown],
        "nodesLeftOut": decision.asked - len(shown),
    }


def _outcome(decision: RecordedDecision) -> str:
    if decision.node:
        return f"kube-scheduler bound the pod to {decision.node}"
    if not decision.passed:
        return "no node passed, kube-scheduler will try again"
    return "not bound (yet): kube-scheduler refused the pod for another reason, or binds it now"


def _candidates(decision: RecordedDecision) -> Iterator[_Candidate]:
    for index, name in enumerate(decision.names):
        score = -1 if decision.scores is None else int(decision.scores[index])
        result = NodeResult.CHOSEN if name == decision.node else NodeResult.PASSED
        if decision.codes is not None and decision.codes[index]:
            result = NodeResult.REJECTED
        yield _Candidate(index, result, None if score < 0 else score)


def _node(
    decision: RecordedDecision,
    candidate: _Candidate,
    chosen_score: int | None,
    plugins: Sequence[str],
    resources: Sequence[str],
) -> dict[str, Any]:
    index, result, score = candidate
    code = 0 if decision.codes is None else int(decision.codes[index])
    age = decision.at - float(decision.updated_at[index])
    document: dict[str, Any] = {
        "node": decision.names[index],
        "result": result.value,
        "reason": decision.reasons[code - 1] if code else None,
        "plugin": (plugins[code - 1] or None) if code else None,
        "score": score,
        "scores": {}
        if score is None
        else {plugin.plugin: int(plugin.scores[index]) for plugin in decision.plugin_scores},
        "weights": {plugin.plugin: plugin.weight for plugin in decision.plugin_scores},
        "reportAgeSeconds": None if math.isnan(age) else age,
        "inputs": {plugin: _inputs(inputs, index) for plugin, inputs in decision.inputs.items()},
    }
    reason = _why(result, document, chosen_score)
    facts = [
        *_load(decision, index, resources),
        *_measured(decision, index),
        "no report" if math.isnan(age) else f"report {age:.0f} s old",
    ]
    document["sentence"] = f"{reason}; {', '.join(facts)}"
    return document


def _why(result: NodeResult, node: Mapping[str, Any], chosen_score: int | None) -> str:
    if result is NodeResult.REJECTED:
        return f"rejected by {node['plugin']}: {node['reason']}" if node["plugin"] else f"rejected: {node['reason']}"
    score = node["score"]
    by_plugin = ", ".join(f"{plugin} {plugin_score}" for plugin, plugin_score in node["scores"].items())
    scored = (
        "not scored" if score is None else f"score {score}" + (f" ({by_plugin})" if len(node["scores"]) > 1 else "")
    )
    compared = "" if result is NodeResult.CHOSEN else _compared(score, chosen_score)
    return f"{result}, {scored}{compared}"


def _compared(score: int | None, chosen_score: int | None) -> str:
    if score is None or chosen_score is None:
        return ""
    if score > chosen_score:
        return f", {score - chosen_score} more than the chosen node, which kube-scheduler's own scores preferred"
    if score == chosen_score:
        return ", same score as the chosen node (tie broken by kube-scheduler)"
    return f", {chosen_score - score} less than the chosen node"


def _load(decision: RecordedDecision, index: int, resources: Sequence[str]) -> Iterator[str]:
    for inputs in decision.inputs.values():
        if not {"usage", "allocatable", "limitPercent"} <= inputs.columns.keys():
            continue
        for place, resource in enumerate(inputs.resources):
            usage, total, limit = (
                int(inputs.columns[name][place, index]) for name in ("usage", "allocatable", "limitPercent")
            )
            estimate = decision.pod.estimate[resources.index(resource)] if decision.pod.estimate else 0
            percent = float(usage_percent(np.array([usage + estimate]), np.array([total]))[0])
            amounts = [_amount(resource, amount) for amount in (usage, estimate, total)]
            of_limit = f", limit {limit} %" if limit else ""
            yield f"{resource} {amounts[0]} + {amounts[1]} of {amounts[2]} = {percent:.0f} %{of_limit}"


def _measured(decision: RecordedDecision, index: int) -> Iterator[str]:
    for inputs in decision.inputs.values():
        if not {"meanPercent", "deviationPercent", "fallbackLevel"} <= inputs.columns.keys():
            continue
        levels = [FallbackLevel(int(level)) for level in inputs.columns["fallbackLevel"][:, index]]
        if len(set(levels)) == 1 and levels[0] is not FallbackLevel.MEASURED:
            yield _FALLBACKS[levels[0]]
            return
        for place, (resource, level) in enumerate(zip(inputs.resources, levels, strict=True)):
            if level is not FallbackLevel.MEASURED:
                yield f"{resource}: {_FALLBACKS[level]}"
                continue
            mean, deviation = (
                float(inputs.columns[name][place, index]) for name in ("meanPercent", "deviationPercent")
            )
            yield f"measured {resource} {mean:.0f} % of capacity, deviation {deviation:.0f} %"
        return


def _amount(resource: str, units: int) -> str:
    if resource == names.CPU:
        return f"{units / 1000:g}"
    return f"{units / 2**30:.1f}Gi" if resource == names.MEMORY else str(units)


def _inputs(explained: PluginInputs, index: int) -> dict[str, Any]:
    return {
        name: dict(zip(explained.resources, map(_number, column[:, index].tolist()), strict=True))
        if column.ndim == 2
        else _number(column[index].item())
        for name, column in explained.columns.items()
    }


def _number(value: float) -> float | None:
    """Return the number; None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None

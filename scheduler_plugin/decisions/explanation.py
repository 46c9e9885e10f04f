"""A decision in words and numbers: for each node a verdict, what speaks for it, and one sentence. Pure.

Amounts are integers: cpu in milli-cores, all else in base units. Times are seconds since the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from api_types import names
from scheduler_plugin.decisions import node_page
from scheduler_plugin.decisions.recorder import Decision
from scheduler_plugin.framework.interface import Explained
from scheduler_plugin.plugins.load_aware.plugin import usage_percent
from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel


class Reasons(NamedTuple):
    """What reason codes mean; code - 1 is the index."""

    texts: Sequence[str]
    policies: Sequence[str]


class NodeResult(NamedTuple):
    """Of one node: its name on the page, and the order in which people look for it."""

    name: str
    order: int


_CHOSEN: Final = NodeResult("chosen", 0)
_PASSED: Final = NodeResult("passed", 1)
_UNLISTED: Final = NodeResult("left out", 2)
_REJECTED: Final = NodeResult("rejected", 3)


class _Standing(NamedTuple):
    """Of one node; `position` in the call, `place` among the scored ones."""

    position: int
    verdict: NodeResult
    place: int | None
    score: int | None


_RUNGS: Final = {
    FallbackLevel.BY_REQUESTS: "nothing measures any node, judged by requests",
    FallbackLevel.PREDICTED: "not measured yet, judged by what its new pods should use",
    FallbackLevel.UNKNOWN: "not measured though pods run there, lowest score",
}


def page(
    key: str, decisions: Sequence[Decision], reasons: Reasons, resources: Sequence[str], most_nodes: int = 0
) -> dict[str, Any]:
    """Everything about the decisions on one pod, newest first; of each at most so many nodes, 0: all."""
    return {"pod": key, "decisions": [_decision(each, reasons, resources, most_nodes) for each in decisions]}


def index(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """One line a decision, to find the pods that are worth a page."""
    return [
        {
            "pod": each.pod.key,
            "at": each.at,
            "nodesAsked": len(each.rows),
            "nodesPassed": each.passed(),
            "node": each.node or None,
        }
        for each in decisions
    ]


def _decision(decision: Decision, reasons: Reasons, resources: Sequence[str], most_nodes: int) -> dict[str, Any]:
    standings = sorted(_standings(decision), key=lambda node: (node.verdict.order, -(node.score or 0)))
    shown = standings[: most_nodes or None]
    chosen_score = standings[0].score if standings and standings[0].verdict is _CHOSEN else None
    pod = decision.pod
    return {
        "at": decision.at,
        "uid": pod.uid,
        "isProd": pod.is_prod,
        "isPinned": pod.is_pinned,
        "estimate": None if pod.estimate is None else node_page.amounts(pod.estimate, resources),
        "midRequests": {"cpuMillis": pod.mid_cpu_millis, "memoryBytes": pod.mid_memory_bytes},
        "nodesAsked": len(standings),
        "nodesPassed": decision.passed(),
        "node": decision.node or None,
        "outcome": _outcome(decision),
        "nodes": [_node(decision, each, chosen_score, reasons, resources) for each in shown],
        "nodesLeftOut": len(standings) - len(shown),
    }


def _outcome(decision: Decision) -> str:
    if decision.node:
        return f"kube-scheduler bound the pod to {decision.node}"
    if not decision.passed():
        return "no node passed, kube-scheduler will try again"
    return "no bind notice came (yet): kube-scheduler found another obstacle, or does not send them (bindVerb)"


def _standings(decision: Decision) -> Iterator[_Standing]:
    places = {} if decision.nodes_scored is None else {row: at for at, row in enumerate(decision.nodes_scored.tolist())}
    for index, (name, row) in enumerate(zip(decision.names, decision.rows.tolist(), strict=True)):
        place = places.get(row)
        code = 0 if decision.codes is None else int(decision.codes[index])
        score = None if place is None or decision.scores is None else int(decision.scores[place])
        yield _Standing(index, _verdict(decision, name, code, is_scored=place is not None), place, score)


def _node(
    decision: Decision, standing: _Standing, chosen_score: int | None, reasons: Reasons, resources: Sequence[str]
) -> dict[str, Any]:
    index, verdict, place, score = standing
    code = 0 if decision.codes is None else int(decision.codes[index])
    is_known = bool(decision.rows[index] >= 0)
    age = decision.at - float(decision.updated_at[index])
    document: dict[str, Any] = {
        "node": decision.names[index],
        "verdict": verdict.name,
        "reason": reasons.texts[code - 1] if code else None,
        "policy": (reasons.policies[code - 1] or None) if code else None,
        "score": score,
        "scores": {} if place is None else {own.policy: int(own.scores[place]) for own in decision.policy_scores},
        "weights": {own.policy: own.weight for own in decision.policy_scores},
        "reportAgeSeconds": None if math.isnan(age) else age,
        "inputs": {policy: _inputs(told, index) for policy, told in decision.inputs.items()} if is_known else {},
    }
    reason = _why(verdict, document, chosen_score)
    facts: list[str] = []
    if is_known:
        facts = [*_load(decision, index, resources), *_measured(decision, index), _age(document["reportAgeSeconds"])]
    document["sentence"] = f"{reason}; {', '.join(facts)}" if facts else reason
    return document


def _verdict(decision: Decision, name: str, code: int, *, is_scored: bool) -> NodeResult:
    if code:
        return _REJECTED
    if name == decision.node:
        return _CHOSEN
    return _PASSED if is_scored or decision.nodes_scored is None else _UNLISTED


def _why(verdict: NodeResult, node: Mapping[str, Any], chosen_score: int | None) -> str:
    if verdict is _REJECTED:
        return f"rejected by {node['policy']}: {node['reason']}" if node["policy"] else f"rejected: {node['reason']}"
    if verdict is _UNLISTED:
        return "passed, but is not among the best of the short list"
    score = node["score"]
    by_policy = ", ".join(f"{policy} {own}" for policy, own in node["scores"].items())
    scored = (
        "not scored" if score is None else f"score {score}" + (f" ({by_policy})" if len(node["scores"]) > 1 else "")
    )
    compared = "" if verdict is _CHOSEN else _compared(score, chosen_score)
    return f"{verdict.name}, {scored}{compared}"


def _compared(score: int | None, chosen_score: int | None) -> str:
    if score is None or chosen_score is None:
        return ""
    if score > chosen_score:
        return f", {score - chosen_score} more than the chosen node, which kube-scheduler's own scores preferred"
    if score == chosen_score:
        return ", as the chosen node, which kube-scheduler's own scores preferred, or chance"
    return f", {chosen_score - score} less than the chosen node"


def _load(decision: Decision, index: int, resources: Sequence[str]) -> Iterator[str]:
    """Usage with the pod against its limit, of the policy that tells them."""
    for told in decision.inputs.values():
        if not {"usage", "allocatable", "limitPercent"} <= told.columns.keys():
            continue
        for place, resource in enumerate(told.resources):
            usage, total, limit = (
                int(told.columns[name][place, index]) for name in ("usage", "allocatable", "limitPercent")
            )
            own = decision.pod.estimate[resources.index(resource)] if decision.pod.estimate else 0
            percent = float(usage_percent(np.array([usage + own]), np.array([total]))[0])
            amounts = [_amount(resource, amount) for amount in (usage, own, total)]
            of_limit = f", limit {limit} %" if limit else ""
            yield f"{resource} {amounts[0]} + {amounts[1]} of {amounts[2]} = {percent:.0f} %{of_limit}"


def _measured(decision: Decision, index: int) -> Iterator[str]:
    """What the load watcher told the first of the policies that go by it: all of them are told the same."""
    for told in decision.inputs.values():
        if not {"meanPercent", "deviationPercent", "rung"} <= told.columns.keys():
            continue
        rung = FallbackLevel(int(told.columns["rung"][index]))
        if rung is not FallbackLevel.MEASURED:
            yield _RUNGS[rung]
            return
        for place, resource in enumerate(told.resources):
            mean, deviation = (float(told.columns[name][place, index]) for name in ("meanPercent", "deviationPercent"))
            yield f"measured {resource} {mean:.0f} % of capacity, deviation {deviation:.0f} %"
        return


def _amount(resource: str, units: int) -> str:
    if resource == names.CPU:
        return f"{units / 1000:g}"
    return f"{units / 2**30:.1f}Gi" if resource == names.MEMORY else str(units)


def _age(seconds: float | None) -> str:
    return "no report" if seconds is None else f"report {seconds:.0f} s old"


def _inputs(told: Explained, index: int) -> dict[str, Any]:
    return {
        name: dict(zip(told.resources, map(_number, column[:, index].tolist()), strict=True))
        if column.ndim == 2
        else _number(column[index].item())
        for name, column in told.columns.items()
    }


def _number(value: float) -> float | None:
    """None for what is no data: JSON knows no NaN."""
    return value if math.isfinite(value) else None

"""Page Prediction: the live evaluation, predictor by predictor, and which one to use. Pure.

The rule is that of `koordctl backtest`: the largest savings of CPU among the predictors with at most TARGET_PERCENT
violations of CPU and half of that of memory.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.node_metric.evaluation_report import SEASONED_FORECASTS, TARGET_PERCENT, Packed
from console.pages import shown
from console.view import FleetView
from fleet.node_state import NodeState

PAGE_SIZE: Final = 50
_MOST_COLUMNS: Final = 6
_SCALE_PERCENT: Final = 5.0
"""Violations at the end of the scale."""


class PredictorScore(NamedTuple):
    """Scores of one predictor and resource, on one node or on all."""

    predictor: str
    resource: str
    nodes: int
    forecasts: float
    violation_percent: float
    savings_percent: float
    is_in_force: bool = False

    @property
    def target_percent(self) -> float:
        """Return the violations that are accepted."""
        return TARGET_PERCENT[self.resource]

    @property
    def keeps(self) -> bool:
        """Check whether the violations are accepted."""
        return self.violation_percent <= self.target_percent

    @property
    def violation_part(self) -> float:
        """Return the length of the bar of violations, in percent of the scale."""
        return round(min(100 * self.violation_percent / _SCALE_PERCENT, 100.0), 1)

    @property
    def target_part(self) -> float:
        """Return the place of the accepted violations on the scale."""
        return round(100 * self.target_percent / _SCALE_PERCENT, 1)

    @property
    def savings_part(self) -> float:
        """Return the length of the bar of savings."""
        return round(min(max(self.savings_percent, 0.0), 100.0), 1)


def context(view: FleetView, page: str) -> dict[str, Any]:
    """Return the values of the template."""
    evaluated = view.by_violations
    in_force = Counter(node.predictor for node in evaluated)
    scores = [
        PredictorScore(
            predictor, resource, fleet.nodes, fleet.forecasts, 100 * fleet.violation_ratio, 100 * fleet.savings_ratio,
            in_force[predictor] > 0,
        )
        for (predictor, resource), fleet in view.evaluations.items()
    ]  # fmt: skip
    scores.sort(key=lambda score: (-score.savings_percent, score.predictor))
    columns = [score.predictor for score in scores if score.resource == names.CPU][:_MOST_COLUMNS]
    chosen = shown.paging(len(evaluated), page, PAGE_SIZE)
    return {
        "recommendation": recommendation(scores, in_force) if scores else progress(view.nodes),
        "by_resource": [
            (title, [score for score in scores if score.resource == resource])
            for title, resource in (("CPU", names.CPU), ("Memory", names.MEMORY))
        ],
        "evaluated": len(evaluated),
        "nodes": len(view.nodes),
        "in_force": in_force.most_common(),
        "target": TARGET_PERCENT[names.CPU],
        "scale": _SCALE_PERCENT,
        "columns": columns,
        "rows": [(node.name, node.predictor, _cells(node, columns)) for node in evaluated[chosen.rows]],
        "page": chosen.number,
        "pages": chosen.pages,
    }


def progress(nodes: Sequence[NodeState]) -> str:
    """Return how far the nodes are before the first result."""
    begins = sorted(node.recorded_since for node in nodes if node.recorded_since)
    if not begins:
        return "There is nothing to compare yet: no node reports a prediction. koordctl check names why."
    return (
        f"There is nothing to compare yet: {len(begins)} of {len(nodes)} nodes record, the first since "
        f"{begins[0]:%F %R} UTC. The first result comes one horizon (an hour by default) after the Prod pods are "
        f"warm; a recommendation needs {SEASONED_FORECASTS:.0f} forecasts of a node, a day."
    )


def recommendation(scores: Sequence[PredictorScore], in_force: Counter[str]) -> str:
    """Return the sentence that recommends a predictor of these scores, or states why none is."""
    cpu = {score.predictor: score for score in scores if score.resource == names.CPU}
    memory = {score.predictor: score for score in scores if score.resource == names.MEMORY}
    seasoned = {name: score for name, score in cpu.items() if score.forecasts >= SEASONED_FORECASTS * score.nodes}
    if not seasoned:
        most = max((score.forecasts / score.nodes for score in cpu.values()), default=0.0)
        return (
            f"Wait: a node has at most {most:.0f} forecasts on average, want {SEASONED_FORECASTS:.0f} or more. "
            "Below that the shares are noise."
        )
    keeping = [score for name, score in seasoned.items() if score.keeps and (name not in memory or memory[name].keeps)]
    most_cpu, most_memory = TARGET_PERCENT[names.CPU], TARGET_PERCENT[names.MEMORY]
    limits = f"at most {most_cpu:g} % violations of CPU and {most_memory:g} % of memory"
    if not keeping:
        return f"No predictor keeps {limits}: keep the one in force, or choose a more careful one."
    best = max(keeping, key=lambda score: (score.savings_percent, score.is_in_force))
    current = in_force.most_common(1)[0][0]
    leaves = f"it leaves {best.savings_percent:.0f} % of the Prod CPU requests"
    shares = f"{leaves} with {best.violation_percent:.2f} % violations"
    if best.predictor == current:
        return f"Keep {best.predictor}: {shares}, the most of the predictors with {limits}."
    now = cpu.get(current)
    than = ""
    if now is not None:
        than = f"; {current}, in force, leaves {now.savings_percent:.0f} % with {now.violation_percent:.2f} %"
    return f"Use {best.predictor}: {shares}, the most of the predictors with {limits}{than}."


def node_scores(packed: Packed) -> list[PredictorScore]:
    """Return the scores of one node; the first predictor is the one in force."""
    values = struct.iter_unpack("3f", packed.scores)
    scores = []
    for position, predictor in enumerate(packed.predictors):
        for resource in (names.CPU, names.MEMORY):
            forecasts, violations, savings = next(values)
            if not math.isnan(forecasts):
                scores.append(PredictorScore(predictor, resource, 1, forecasts, violations, savings, position == 0))
    return scores


def _cells(node: NodeState, columns: Sequence[str]) -> list[PredictorScore | None]:
    """Return the scores of CPU of some predictors; None for one that the node does not evaluate."""
    scores = node_scores(node.evaluation) if node.evaluation else []
    by_predictor = {score.predictor: score for score in scores if score.resource == names.CPU}
    return [by_predictor.get(name) for name in columns]

"""Read the live evaluation of a NodeMetric report, and combine those of many nodes.

The values are those of one node's agent and are not trusted: a predictor counts once a node, and an impossible value
does not count.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from api_types import names
from api_types.colocation.controller_config import MOST_EVALUATED

MOST_ENTRIES: Final = MOST_EVALUATED + 1
"""Predictors that one node evaluates: the one in force and the others."""
MOST_PREDICTORS: Final = 32
"""Predictors that are combined: those of the most nodes."""
_LONGEST_NAME: Final = 63
_MOST_FORECASTS: Final = 1000.0
"""With the shortest horizon and a half-life of 7 days there are 971."""
_LEAST_SAVINGS_PERCENT: Final = -1e6


class WireScores(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Scores of one resource."""

    forecasts: float = 0.0
    violation_percent: float = 0.0
    savings_percent: float = 0.0

    def is_possible(self) -> bool:
        """Check whether an agent can have measured this; false for NaN."""
        return (
            0 < self.forecasts <= _MOST_FORECASTS
            and 0 <= self.violation_percent <= 100
            and _LEAST_SAVINGS_PERCENT <= self.savings_percent <= 100
        )


class WireEvaluation(msgspec.Struct, frozen=True, gc=False):
    """Entry of `status.prediction.evaluation`."""

    predictor: str = ""
    cpu: WireScores | None = None
    memory: WireScores | None = None


class WirePrediction(msgspec.Struct, frozen=True, gc=False):
    """`status.prediction` of a NodeMetric; only the evaluation is read."""

    evaluation: list[WireEvaluation] | None = None


class Fleet(NamedTuple):
    """Scores of one predictor and resource over all nodes; ratios are weighted by forecasts."""

    nodes: int
    forecasts: float
    violation_ratio: float
    savings_ratio: float


def combined(reports: Iterable[Sequence[WireEvaluation]]) -> Mapping[tuple[str, str], Fleet]:
    """Return (predictor, resource) -> the scores over all nodes. Each report is that of one node."""
    found: dict[str, dict[str, list[WireScores]]] = {}
    for report in reports:
        for name, entry in {each.predictor: each for each in report[:MOST_ENTRIES]}.items():
            if 0 < len(name) <= _LONGEST_NAME:
                of = found.setdefault(name, {names.CPU: [], names.MEMORY: []})
                for resource, scores in ((names.CPU, entry.cpu), (names.MEMORY, entry.memory)):
                    if scores is not None and scores.is_possible():
                        of[resource].append(scores)
    nodes = collections.Counter({name: max(map(len, of.values())) for name, of in found.items()})
    return {
        (name, resource): _fleet(scores)
        for name, _ in nodes.most_common(MOST_PREDICTORS)
        for resource, scores in found[name].items()
        if scores
    }


def _fleet(scores: Sequence[WireScores]) -> Fleet:
    forecasts = sum(each.forecasts for each in scores)
    violations = sum(each.forecasts * each.violation_percent for each in scores)
    savings = sum(each.forecasts * each.savings_percent for each in scores)
    return Fleet(len(scores), forecasts, violations / forecasts / 100, savings / forecasts / 100)

"""Read the live evaluation of a NodeMetric report, and combine those of many nodes.

The values are those of one node's agent and are not trusted: a predictor counts once a node, and an impossible value
does not count.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from api_types import names
from api_types.colocation.controller_config import LONGEST_PREDICTOR_NAME, MOST_EVALUATED

MOST_ENTRIES: Final = MOST_EVALUATED + 1
"""Predictors that one node evaluates: the one in force and the others."""
MOST_PREDICTORS: Final = 32
"""Predictors that are combined: those of the most nodes."""
TARGET_PERCENT: Final = {names.CPU: 1.0, names.MEMORY: 0.5}
"""Violations that are accepted."""
SEASONED_FORECASTS: Final = 24.0
"""Forecasts of a node below which its shares are noise: a day at the default horizon."""
_LEAST_FORECASTS: Final = 0.05
"""Agents round to tenths."""
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
            _LEAST_FORECASTS <= self.forecasts <= _MOST_FORECASTS
            and 0 <= self.violation_percent <= 100
            and _LEAST_SAVINGS_PERCENT <= self.savings_percent <= 100
        )


class WireEvaluation(msgspec.Struct, frozen=True, gc=False):
    """Entry of `status.prediction.evaluation`."""

    predictor: str = ""
    cpu: WireScores | None = None
    memory: WireScores | None = None


class WirePrediction(msgspec.Struct, frozen=True, gc=False):
    """The parts of `status.prediction` of a NodeMetric that are read."""

    evaluation: list[WireEvaluation] | None = None
    level: dict[str, str] | None = None
    """Answer in force of `calibrated`, by resource."""


class Fleet(NamedTuple):
    """Scores of one predictor and resource over all nodes; ratios are weighted by forecasts."""

    nodes: int
    forecasts: float
    violation_ratio: float
    savings_ratio: float


class Packed(NamedTuple):
    """Evaluation of one node, in a seventh of the memory of the decoded one."""

    predictors: tuple[str, ...]
    scores: bytes
    """For each predictor the three scores of CPU and those of memory, as float32; NaN for what does not count."""


def pack(entries: Sequence[WireEvaluation]) -> Packed:
    """Return what counts of the evaluation of one node."""
    evaluations = {
        evaluation.predictor: evaluation
        for evaluation in entries[:MOST_ENTRIES]
        if 0 < len(evaluation.predictor) <= LONGEST_PREDICTOR_NAME
    }
    scores = [
        _values(resource_scores)
        for evaluation in evaluations.values()
        for resource_scores in (evaluation.cpu, evaluation.memory)
    ]
    return Packed(
        _shared(tuple(evaluations)), struct.pack(f"{3 * len(scores)}f", *itertools.chain.from_iterable(scores))
    )


@functools.lru_cache(maxsize=256)
def _shared(predictors: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same object for equal names: most nodes evaluate the same predictors."""
    return predictors


def _values(scores: WireScores | None) -> tuple[float, float, float]:
    if scores is None or not scores.is_possible():
        return math.nan, math.nan, math.nan
    return scores.forecasts, scores.violation_percent, scores.savings_percent


def in_force(report: Packed) -> Packed:
    """Return the scores of the predictor in force alone, without its name, so that those of all nodes combine."""
    return Packed(("",), report.scores[: struct.calcsize("6f")])


def combined(reports: Iterable[Packed]) -> Mapping[tuple[str, str], Fleet]:
    """Return (predictor, resource) -> the scores over all nodes. Each report is that of one node."""
    scores_by_predictor: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    for report in reports:
        scores = struct.iter_unpack("3f", report.scores)
        for name in report.predictors:
            scores_by_resource = scores_by_predictor.setdefault(name, {names.CPU: [], names.MEMORY: []})
            for resource in (names.CPU, names.MEMORY):
                forecasts, violation_percent, savings_percent = next(scores)
                if not math.isnan(forecasts):
                    scores_by_resource[resource].append((forecasts, violation_percent, savings_percent))
    nodes = collections.Counter(
        {name: max(map(len, by_resource.values())) for name, by_resource in scores_by_predictor.items()}
    )
    return {
        (name, resource): _fleet(scores)
        for name, _ in nodes.most_common(MOST_PREDICTORS)
        for resource, scores in scores_by_predictor[name].items()
        if scores
    }


def _fleet(scores: Sequence[tuple[float, float, float]]) -> Fleet:
    total = sum(forecasts for forecasts, _, _ in scores)
    violations = sum(forecasts * percent for forecasts, percent, _ in scores)
    savings = sum(forecasts * percent for forecasts, _, percent in scores)
    return Fleet(len(scores), total, violations / total / 100, savings / total / 100)

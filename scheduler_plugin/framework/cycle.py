"""One pod against the cluster: every policy's rejections, first come first named, and the weighted score.

    score of a node = (sum of weight * normalised score) // sum of weights        over the policies that scored the pod

Pure: what it answers depends on the columns and on `now` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler_plugin.framework.interface import Filter, ReasonCodes, Scorer
from scheduler_plugin.state.node_columns import Bools, Ints, NodeColumns, Rows
from scheduler_plugin.state.pod_info import PodInfo

UNKNOWN_NODE: Final = "node(s) not known to the load-aware extender"
_UNKNOWN: Final = 1  # reason code of a name that stands in no row


class WeightedScorer(NamedTuple):
    """A policy and its share of the score."""

    scorer: Scorer
    weight: int


class PolicyScores(NamedTuple):
    """What one policy says of the candidates of one call."""

    policy: str
    weight: int
    scores: Ints
    """0..100, in the order of the candidates."""


class SchedulingCycle:
    """The configured policies, over one set of rows. Row -1 stands for a node that is not known."""

    def __init__(self, filters: Sequence[Filter], scorers: Sequence[WeightedScorer], vectors: NodeColumns) -> None:
        self._filters = filters
        self._scorers = scorers
        self._vectors = vectors
        self.reasons: list[str] = [UNKNOWN_NODE]
        """Every reason a node can be rejected for; reason code - 1 is its index."""
        self.rejecting_policies: list[str] = [""]
        """Which policy gives each of the reasons; none for a node that is not known."""
        self._first_code: list[int] = []
        for each in filters:
            self._first_code.append(len(self.reasons))
            self.reasons.extend(each.reasons)
            self.rejecting_policies.extend([each.name] * len(each.reasons))

    def filter(self, pod: PodInfo, rows: Rows, now: float) -> ReasonCodes | None:
        """Reason code of each candidate, 0 where it passes; None where all pass."""
        is_known: Bools = rows >= 0
        if is_known.all():
            return self._judge(pod, rows, now)
        codes = np.full(len(rows), _UNKNOWN, dtype=np.int16)
        of_known = self._judge(pod, rows[is_known], now)
        codes[is_known] = 0 if of_known is None else of_known
        return codes

    def _judge(self, pod: PodInfo, rows: Rows, now: float) -> ReasonCodes | None:
        codes: ReasonCodes | None = None
        for each, first_code in zip(self._filters, self._first_code, strict=True):
            own = each.reject(pod, rows, self._vectors, now)
            if own is None or not own.any():
                continue
            shifted = np.where(own > 0, own + first_code, 0).astype(np.int16)
            codes = shifted if codes is None else np.where(codes > 0, codes, shifted)
        return codes

    def prioritize(self, pod: PodInfo, rows: Rows, now: float) -> Ints:
        """Score of each candidate, 0..100, rounded down; 0 where no policy has a preference."""
        return combined(self.scores_by_policy(pod, rows, now), len(rows))

    def scores_by_policy(self, pod: PodInfo, rows: Rows, now: float) -> list[PolicyScores]:
        """Normalised scores of each policy that has a preference for this pod."""
        if not len(rows):
            return []
        result = []
        for scorer, weight in self._scorers:
            scores = scorer.score(pod, rows, self._vectors, now)
            if scores is not None:
                result.append(PolicyScores(scorer.name, weight, scorer.normalize(scores)))
        return result


def combined(by_policy: Sequence[PolicyScores], count: int) -> Ints:
    """Weigh the scores of `count` candidates; the formula at the head of this module."""
    if not by_policy:
        return np.zeros(count, dtype=np.int64)
    if len(by_policy) == 1:
        return by_policy[0].scores
    total_weight = sum(own.weight for own in by_policy)
    weighted: Ints = sum((own.weight * own.scores for own in by_policy), np.zeros(count, dtype=np.int64))
    return weighted // total_weight

"""One pod against the cluster: every policy's rejections, first come first named, and the weighted score.

Pure: what it answers depends on the columns and on `now` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler_plugin.cluster_state.node_vectors import Bools, Ints, NodeVectors, Rows
from scheduler_plugin.cluster_state.pod_facts import PodFacts
from scheduler_plugin.plugins.policy import Policy, ReasonCodes

UNKNOWN_NODE: Final = "node(s) not known to the load-aware extender"
_UNKNOWN: Final = 1  # reason code of a name that stands in no row
_HIGHEST_SCORE: Final = 100


class WeightedPolicy(NamedTuple):
    """A policy and its share of the score."""

    policy: Policy
    weight: int


class SchedulingCycle:
    """The configured policies, over one set of rows. Row -1 stands for a node that is not known."""

    def __init__(self, policies: Sequence[WeightedPolicy], vectors: NodeVectors) -> None:
        self._policies = policies
        self._vectors = vectors
        self.reasons: list[str] = [UNKNOWN_NODE]
        """Every reason a node can be rejected for; reason code - 1 is its index."""
        self._first_code: list[int] = []
        for policy, _weight in policies:
            self._first_code.append(len(self.reasons))
            self.reasons.extend(policy.reasons)

    def filter(self, pod: PodFacts, rows: Rows, now: float) -> ReasonCodes | None:
        """Reason code of each candidate, 0 where it passes; None where all pass."""
        is_known: Bools = rows >= 0
        if is_known.all():
            return self._judge(pod, rows, now)
        codes = np.full(len(rows), _UNKNOWN, dtype=np.int16)
        of_known = self._judge(pod, rows[is_known], now)
        codes[is_known] = 0 if of_known is None else of_known
        return codes

    def _judge(self, pod: PodFacts, rows: Rows, now: float) -> ReasonCodes | None:
        codes: ReasonCodes | None = None
        for (policy, _weight), first_code in zip(self._policies, self._first_code, strict=True):
            own = policy.reject(pod, rows, self._vectors, now)
            if own is None or not own.any():
                continue
            shifted = np.where(own > 0, own + first_code, 0).astype(np.int16)
            codes = shifted if codes is None else np.where(codes > 0, codes, shifted)
        return codes

    def prioritize(self, pod: PodFacts, rows: Rows, now: float) -> Ints:
        """Score of each candidate, 0..100: the mean of the policies' scores by their weights, rounded down."""
        total, total_weight = np.zeros(len(rows), dtype=np.int64), 0
        for policy, weight in self._policies:
            scores = policy.score(pod, rows, self._vectors, now)
            if scores is not None:
                total = total + weight * scores
                total_weight += weight
        clipped: Ints = np.clip(total // max(total_weight, 1), 0, _HIGHEST_SCORE)
        return clipped

"""Merge the scores of the nodes of a pool into a prior for its young nodes. Pure.

Nodes are of one pool where they have the same strategy, instance type and node pool. A prior of unlike nodes breaks the
target of the prediction, so that pools share nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

LEAST_LABELS: Final = 500
LEAST_NODES: Final = 5
MOST_NODES: Final = 100
"""Nodes whose scores a pool keeps: 500 scores suffice, and those of a node take up to 10 KiB."""
EXPIRY_SECONDS: Final = 3 * 24 * 3600.0
HALF_LIFE_SECONDS: Final = 7 * 24 * 3600.0
"""Of the scores of a node that states no newer ones, and their expiry: five nodes that live a day have enough."""
_DIGITS: Final = 4


class Scores(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Decayed histogram of the scores of one resource: index and weight of each cell in use."""

    labels: float = 0.0
    """Number of scores, not decayed."""
    cells: list[tuple[int, float]] = []


class NodeScores(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Newest scores of a node, as of `time` in Unix seconds."""

    time: int
    cpu: Scores
    memory: Scores


class Prior(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Scores of a pool, as of `time` in Unix seconds; a resource with too few of them has none."""

    time: int
    nodes: int
    cpu: Scores
    memory: Scores

    def is_expired(self, now_seconds: float) -> bool:
        """Check whether the prior is too old."""
        return now_seconds - self.time > EXPIRY_SECONDS


def prior(newest: Collection[NodeScores], now_seconds: int) -> Prior | None:
    """Return the sum of the newest scores of each node of a pool; None where they are too few for both resources."""
    fresh = [scores for scores in newest if now_seconds - scores.time <= HALF_LIFE_SECONDS]
    ages = [max(now_seconds - scores.time, 0) for scores in fresh]
    cpu = _summed(zip((scores.cpu for scores in fresh), ages, strict=True))
    memory = _summed(zip((scores.memory for scores in fresh), ages, strict=True))
    if not cpu.cells and not memory.cells:
        return None
    return Prior(max(scores.time for scores in fresh), len(fresh), cpu, memory)


def _summed(scores: Iterable[tuple[Scores, int]]) -> Scores:
    weights: defaultdict[int, float] = defaultdict(float)
    labels, nodes = 0.0, 0
    for stated, age in scores:
        share = 0.5 ** (age / HALF_LIFE_SECONDS)
        labels += stated.labels * share
        nodes += bool(stated.labels)
        for cell, weight in stated.cells:
            weights[cell] += weight * share
    if labels < LEAST_LABELS or nodes < LEAST_NODES:
        return Scores()
    return Scores(round(labels), [(cell, float(f"{weights[cell]:.{_DIGITS}g}")) for cell in sorted(weights)])

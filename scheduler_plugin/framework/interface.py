"""What a policy is: it keeps columns over the nodes, and rejects nodes for a pod, scores them, or does both.

Answers are arrays over the candidates, because a call asks about hundreds of nodes. A policy that needs what it does
not get here takes it into its columns when `write` shows it a node that changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from scheduler_plugin.state.node_columns import Bools, Floats, Ints, NodeColumns, Rows, RowWriter
from scheduler_plugin.state.pod_info import PodInfo

HIGHEST_SCORE = 100

ReasonCodes = npt.NDArray[np.int16]
"""Per candidate: 0 where the node passes, else 1 + the index of the reason."""

Scores = Floats | Ints
"""Per candidate, in whatever scale and direction the policy thinks; `normalize` makes 0..100 of it."""


class Plugin(RowWriter, Protocol):
    """One way to judge nodes. `rows` are the candidates, all of them known nodes; answers are in their order."""

    name: str
    """Name in the configuration."""


class Filter(Plugin, Protocol):
    """A policy that may keep a pod off nodes."""

    reasons: Sequence[str]
    """Every reason it may give: few and fixed, because kube-scheduler groups nodes by them."""

    def reject(self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float) -> ReasonCodes | None:
        """Which candidates the pod must not run on; None where the policy has nothing against any of them."""


class Scorer(Plugin, Protocol):
    """A policy that prefers some nodes to others."""

    def score(self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float) -> Scores | None:
        """How good each candidate is; None where the policy has no preference for this pod, and so no say."""

    def normalize(self, scores: Scores) -> Ints:
        """Bring the scores of one call, of at least one candidate, to 0..100, larger is better."""


class Explained(NamedTuple):
    """What a policy went by, for people."""

    resources: Sequence[str]
    """Of the columns of two axes; cpu in milli-cores, all else in base units."""
    columns: Mapping[str, Ints | Floats | Bools]
    """By name as in JSON: shape (candidates,) or (resources, candidates)."""


class Explainer(Plugin, Protocol):
    """A policy that can tell what it goes by; it need not."""

    def explain(self, pod: PodInfo, rows: Rows) -> Explained:
        """Copy what the columns hold of the candidates right now; of row -1 anything."""


def clipped(scores: Scores) -> Ints:
    """Normalise scores that are 0..100 already, up to rounding towards zero and strays outside."""
    whole: Ints = np.clip(scores, 0, HIGHEST_SCORE).astype(np.int64)
    return whole

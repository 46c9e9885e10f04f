"""What a policy is: it keeps columns over the nodes, may reject nodes for a pod, and may score them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler_plugin.cluster_state.node_vectors import Ints, NodeVectors, Rows, RowWriter
from scheduler_plugin.cluster_state.pod_facts import PodFacts

ReasonCodes = npt.NDArray[np.int16]
"""Per row: 0 where the node passes, else 1 + the index of the reason."""


class Policy(RowWriter, Protocol):
    """One way to judge nodes. `rows` are the candidates; answers are in their order."""

    name: str
    """Name in the configuration."""
    reasons: Sequence[str]
    """Every reason it may give: few and fixed, because kube-scheduler groups nodes by them."""

    def reject(self, pod: PodFacts, rows: Rows, vectors: NodeVectors, now: float) -> ReasonCodes | None:
        """Which candidates the pod must not run on; None where the policy has nothing against any of them."""

    def score(self, pod: PodFacts, rows: Rows, vectors: NodeVectors, now: float) -> Ints | None:
        """How good each candidate is, 0..100, larger is better; None where the policy does not score."""

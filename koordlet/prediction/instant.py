"""Pods and node at the time of a prediction, and what policies that are predicted together share."""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from koordlet.prediction import allocation
from koordlet.prediction.allocation import ChargedPod, WholeAmounts
from koordlet.prediction.peaks import NodePeak, ProdLoad
from koordlet.samples import Resource


@dataclass(frozen=True, slots=True)
class Loads:
    """Load of Prod on each resource, for one cold-start period and one N."""

    warm: Sequence[ChargedPod]
    cold_pods: int
    by_resource: Mapping[Resource, ProdLoad]


@dataclass(frozen=True)
class Instant:
    """Arguments of one call of `PredictionServer.predict_each`, and what it has computed so far."""

    now_seconds: float
    bound: Sequence[ChargedPod]
    allocatable: WholeAmounts | None
    capacity: WholeAmounts | None
    unmeasured: Container[str]
    loads: dict[tuple[float, float], Loads] = field(default_factory=dict)
    """By cold-start period and N."""
    node_peaks: dict[float, dict[Resource, NodePeak]] = field(default_factory=dict)
    """By N."""

    @functools.cached_property
    def prod_pods(self) -> list[ChargedPod]:
        """The pods charged to Prod."""
        return allocation.charged_to_prod(self.bound)

    @functools.cached_property
    def requested(self) -> WholeAmounts:
        """Requests of the pods charged to Prod."""
        return allocation.requested_by(self.prod_pods)

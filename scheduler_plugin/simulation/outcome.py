"""What became of a scenario under one contender, and the few numbers to compare contenders by. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler_plugin.simulation import node_agents
from scheduler_plugin.simulation.scenario import Scenario
from scheduler_plugin.state.node_columns import Floats, Ints

HOT_PERCENT = 80.0
"""Of a node's allocatable CPU; above it latencies suffer."""


class Placement(NamedTuple):
    """Where an arriving pod went, and when, in seconds after the beginning."""

    node: str
    at_seconds: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """Everything that happened; pods by their index in the scenario."""

    scenario: Scenario
    demand: Floats
    """Shape (2, nodes, steps): CPU in milli-cores and memory in bytes that all on a node wants to use."""
    pod_counts: np.ndarray[tuple[int, int], np.dtype[np.int32]]
    """Shape (nodes, steps)."""
    placements: Mapping[int, Placement]
    """Of the pods that arrived and found a node."""
    tries: Mapping[int, int]
    """How often each arriving pod was tried."""
    rejections: Mapping[str, int]
    """Reason -> nodes that were refused to a pod, over all tries."""

    def cpu_utilisation(self) -> Floats:
        """Shape (nodes, steps): share of allocatable CPU that is wanted; above 1 where it cannot be had."""
        result: Floats = node_agents.utilisation(self.demand, self.scenario.nodes)[0]
        return result

    def hot_nodes(self, percent: float = HOT_PERCENT) -> Ints:
        """How many nodes are above a CPU utilisation, by step."""
        counts: Ints = (self.cpu_utilisation() > percent / 100).sum(axis=0)
        return counts


class Summary(NamedTuple):
    """One row of the comparison. Ratios are 0..1."""

    hot_ratio: float
    """Node-time above HOT_PERCENT of CPU."""
    overload_ratio: float
    """CPU time that is wanted beyond what nodes have, of all that is wanted."""
    spread: float
    """Standard deviation of CPU utilisation over the nodes, mean over time."""
    peak: float
    """99th percentile of CPU utilisation over nodes and time."""
    nodes_used: float
    """Nodes that run at least one pod, mean over time."""
    placed: int
    waited: int
    """Pods that were placed, but not at the first try."""
    never_placed: int
    mean_wait_seconds: float
    """Of all pods that were placed."""


def summary(outcome: Outcome) -> Summary:
    """Condense an outcome."""
    used = outcome.cpu_utilisation()
    capacity = np.divide(outcome.demand[0], used, out=np.zeros_like(used), where=used > 0)
    excess = np.maximum(used - 1, 0) * capacity
    wanted = outcome.demand[0].sum()
    waits = [
        placement.at_seconds - outcome.scenario.pods[index].at_seconds
        for index, placement in outcome.placements.items()
    ]
    return Summary(
        hot_ratio=float((used > HOT_PERCENT / 100).mean()) if used.size else 0.0,
        overload_ratio=float(excess.sum() / wanted) if wanted else 0.0,
        spread=float(used.std(axis=0).mean()) if used.size else 0.0,
        peak=float(np.quantile(used, 0.99)) if used.size else 0.0,
        nodes_used=float((outcome.pod_counts > 0).sum(axis=0).mean()) if used.size else 0.0,
        placed=len(waits),
        waited=sum(outcome.tries[index] > 1 for index in outcome.placements),
        never_placed=len(outcome.tries) - len(waits),
        mean_wait_seconds=float(sum(waits)) / len(waits) if waits else 0.0,
    )

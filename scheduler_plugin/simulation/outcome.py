"""Result of a scenario under one contender, and a summary to compare contenders. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler_plugin.simulation import node_agents
from scheduler_plugin.simulation.scenario import Scenario
from scheduler_plugin.state.node_columns import Floats, Ints

HOT_PERCENT = 80.0
"""Share of a node's allocatable CPU above which latencies suffer."""


class PodPlacement(NamedTuple):
    """Node of an arrived pod, and the time of its placement in seconds after the beginning."""

    node: str
    at_seconds: float


@dataclass(frozen=True, eq=False)
class ReplayOutcome:
    """Complete result; pods by their index in the scenario."""

    scenario: Scenario
    demand: Floats
    """Demand of everything on a node, shape (2, nodes, steps): CPU in milli-cores and memory in bytes."""
    pod_counts: np.ndarray[tuple[int, int], np.dtype[np.int32]]
    """Shape (nodes, steps)."""
    placements: Mapping[int, PodPlacement]
    """Placements of the arrived pods that got a node."""
    tries: Mapping[int, int]
    """Number of tries of each arrived pod."""
    rejections: Mapping[str, int]
    """Reason -> number of nodes rejected for a pod, over all tries."""

    def cpu_utilization(self) -> Floats:
        """Compute CPU demand as a share of allocatable, shape (nodes, steps); above 1 on an overloaded node."""
        result: Floats = node_agents.utilization(self.demand, self.scenario.nodes)[0]
        return result

    def hot_nodes(self, percent: float = HOT_PERCENT) -> Ints:
        """Count the nodes above a CPU utilization, by step."""
        counts: Ints = (self.cpu_utilization() > percent / 100).sum(axis=0)
        return counts


class OutcomeSummary(NamedTuple):
    """Summary of one contender. Ratios are 0..1."""

    hot_ratio: float
    """Node-time above HOT_PERCENT of CPU."""
    overload_ratio: float
    """CPU demand above the capacity of the nodes, as a share of all CPU demand."""
    spread: float
    """Standard deviation of CPU utilization over the nodes, mean over time."""
    peak: float
    """99th percentile of CPU utilization over nodes and time."""
    nodes_used: float
    """Nodes that run at least one pod, mean over time."""
    placed: int
    waited: int
    """Pods that were placed after the first try."""
    never_placed: int
    mean_wait_seconds: float
    """Mean over all placed pods."""


def summary(outcome: ReplayOutcome) -> OutcomeSummary:
    """Compute the summary of an outcome."""
    used = outcome.cpu_utilization()
    capacity = np.divide(outcome.demand[0], used, out=np.zeros_like(used), where=used > 0)
    excess = np.maximum(used - 1, 0) * capacity
    demand = outcome.demand[0].sum()
    waits = [
        placement.at_seconds - outcome.scenario.pods[index].at_seconds
        for index, placement in outcome.placements.items()
    ]
    return OutcomeSummary(
        hot_ratio=float((used > HOT_PERCENT / 100).mean()) if used.size else 0.0,
        overload_ratio=float(excess.sum() / demand) if demand else 0.0,
        spread=float(used.std(axis=0).mean()) if used.size else 0.0,
        peak=float(np.quantile(used, 0.99)) if used.size else 0.0,
        nodes_used=float((outcome.pod_counts > 0).sum(axis=0).mean()) if used.size else 0.0,
        placed=len(waits),
        waited=sum(outcome.tries[index] > 1 for index in outcome.placements),
        never_placed=len(outcome.tries) - len(waits),
        mean_wait_seconds=float(sum(waits)) / len(waits) if waits else 0.0,
    )

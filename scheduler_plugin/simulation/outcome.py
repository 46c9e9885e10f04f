"""Result of a scenario under one contender, and the comparison of contenders as text and JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler_plugin.simulation import scenario
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
        result: Floats = scenario.utilization(self.demand, self.scenario.nodes)[0]
        return result

    def hot_nodes(self) -> Ints:
        """Count the nodes above HOT_PERCENT of CPU, by step."""
        counts: Ints = (self.cpu_utilization() > HOT_PERCENT / 100).sum(axis=0)
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


_PERIODS: Final = 12  # lines of the table over time
_SUMMARY: Final = (
    (f"node-time above {HOT_PERCENT:.0f} % CPU", "hot_ratio", ".2%"),
    ("CPU demand above node capacity", "overload_ratio", ".2%"),
    ("spread of CPU utilization (stdev)", "spread", ".2%"),
    ("p99 of CPU utilization", "peak", ".1%"),
    ("nodes used, mean", "nodes_used", ".1f"),
    ("pods placed", "placed", "d"),
    ("  of these after a retry", "waited", "d"),
    ("  wait, mean (s)", "mean_wait_seconds", ".1f"),
    ("pods never placed", "never_placed", "d"),
)
"""Lines of the table: title, field of the summary, and its format."""


def text(outcomes: Mapping[str, ReplayOutcome]) -> str:
    """Format tables with a column for each contender."""
    summaries = [summary(contender) for contender in outcomes.values()]
    rows = [("", *outcomes)]
    rows += [(title, *(format(getattr(one, name), form) for one in summaries)) for title, name, form in _SUMMARY]
    rows.append(("nodes rejected, over all tries:", *("" for _ in outcomes)))
    for reason in sorted({reason for contender in outcomes.values() for reason in contender.rejections}):
        rows.append((f"  {reason}", *(str(contender.rejections.get(reason, 0)) for contender in outcomes.values())))
    over_time = [(f"hot nodes (> {HOT_PERCENT:.0f} %), mean", *outcomes), *_rows_over_time(list(outcomes.values()))]
    return "\n".join([*_aligned(rows), "", *_aligned(over_time)]) + "\n"


def document(outcomes: Mapping[str, ReplayOutcome]) -> dict[str, Any]:
    """Return all results as JSON, with hot nodes by step and the node of each arrived pod."""
    return {
        name: {
            **summary(contender)._asdict(),
            "rejections": dict(contender.rejections),
            "hot_nodes": contender.hot_nodes().tolist(),
            "step_seconds": contender.scenario.step_seconds,
            "placements": {
                contender.scenario.pods[index].pod.metadata.namespace
                + "/"
                + contender.scenario.pods[index].pod.metadata.name: placed._asdict()
                for index, placed in contender.placements.items()
            },
        }
        for name, contender in outcomes.items()
    }


def _rows_over_time(outcomes: Sequence[ReplayOutcome]) -> Iterator[tuple[str, ...]]:
    for steps in np.array_split(np.arange(outcomes[0].scenario.steps), _PERIODS):
        if len(steps):
            hours = steps[[0, -1]] * outcomes[0].scenario.step_seconds / 3600
            yield (
                f"  from {hours[0]:.1f} h",
                *(f"{contender.hot_nodes()[steps].mean():.2f}" for contender in outcomes),
            )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]

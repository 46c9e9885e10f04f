"""Input of a replay: nodes, running and arriving pods, and the usage of each on a grid of equal steps. Pure.

Step k covers the time from k to k + 1 steps after the beginning; usage is constant within a step.

The agents add the demand of pods without a limit. The measured usage stops at the node's capacity, which the pods
share. Reports are made at regular intervals, with a different offset for every node, and contain no later usage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from api_types import names
from api_types.kubernetes import pods, priority_and_qos, quantities, times
from scheduler_plugin.state.node_columns import Floats
from scheduler_plugin.state.node_report import NodeMetric

BEGINNING = 1_700_000_000.0
"""Beginning of a scenario without a recording, in seconds since the epoch."""


@dataclass(frozen=True, eq=False)
class SimulatedPod:
    """Simulated pod. With `spec.nodeName` it runs there from the beginning, otherwise it must be placed."""

    pod: pods.Pod
    usage: Floats
    """Shape (2, steps): CPU in milli-cores and memory in bytes, by step from its start; the last step is repeated."""
    at_seconds: float = 0.0
    """Time of its arrival, after the beginning."""
    lifetime_seconds: float = math.inf
    """Run time after its placement."""


@dataclass(frozen=True, eq=False)
class SimulatedNode:
    """Simulated node."""

    node: pods.Node
    other_usage: tuple[float, float] = (0.0, 0.0)
    """Constant usage of everything except the simulated pods: CPU in milli-cores and memory in bytes."""
    recorded: Mapping[str, Any] | None = None
    """NodeMetric at the beginning; with None the agent creates one at that moment."""
    agent_reports: bool = True
    """Whether an agent continues to report; otherwise the recorded report, if any, remains the only one."""


@dataclass(frozen=True, eq=False)
class Scenario:
    """Everything that does not depend on the scheduler."""

    nodes: Sequence[SimulatedNode]
    pods: Sequence[SimulatedPod]
    step_seconds: float
    steps: int
    began_at: float = BEGINNING
    report_interval_seconds: float = 60.0


_WINDOWS_SECONDS: Final = {"5m0s": 300, "10m0s": 600, "15m0s": 900, "30m0s": 1800}
_QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class _PodStay(NamedTuple):
    """Pod on a node from step `first` until before step `end`."""

    pod: SimulatedPod
    first: int
    end: int


class NodeAgents:
    """Usage and reports of every node; nodes by their index."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._nodes = scenario.nodes
        other = np.array([node.other_usage for node in scenario.nodes], dtype=np.float64).reshape(-1, 2)
        self.demand: Floats = np.repeat(other.T[:, :, np.newaxis], scenario.steps, axis=2)
        """Demand of everything on a node, shape (2, nodes, steps): CPU in milli-cores and memory in bytes."""
        self.pod_counts = np.zeros((len(scenario.nodes), scenario.steps), dtype=np.int32)
        self._capacity = np.array([_capacity(node.node) for node in scenario.nodes], dtype=np.float64).reshape(-1, 2)
        self._longest_steps = max(math.ceil(max(_WINDOWS_SECONDS.values()) / scenario.step_seconds), 1)
        self._stays: list[list[_PodStay]] = [[] for _ in scenario.nodes]
        interval, count = scenario.report_interval_seconds, max(len(scenario.nodes), 1)
        self._phase = [interval * index / count for index in range(count)]
        self._reported_at = [-math.inf] * len(scenario.nodes)

    def place(self, pod: SimulatedPod, node: int, at_seconds: float) -> None:
        """Add the usage of a pod from a moment to the end of its lifetime."""
        step = self._scenario.step_seconds
        first = int(at_seconds // step)
        lasts = math.inf if math.isinf(pod.lifetime_seconds) else (at_seconds + pod.lifetime_seconds) // step
        end = int(min(max(lasts, first + 1), self._scenario.steps))
        if first >= end:
            return
        self.demand[:, node, first:end] += _stretch(pod.usage, end - first)
        self.pod_counts[node, first:end] += 1
        self._stays[node].append(_PodStay(pod, first, end))

    def due(self, now_seconds: float) -> list[NodeMetric]:
        """Return the newest report of each node that made one after the previous call and up to `now_seconds`."""
        reports = []
        for index, node in enumerate(self._nodes):
            at = self._last_moment(index, now_seconds)
            if at <= self._reported_at[index]:
                continue
            self._reported_at[index] = at
            if at == 0 and node.recorded is not None:
                reports.append(_as_received(node.recorded))
            elif node.agent_reports:
                reports.append(_as_received(self._report(index, at)))
        return reports

    def _last_moment(self, node: int, now_seconds: float) -> float:
        """Return the moment of a node's newest report: the beginning, then its phase and every interval after it.

        A recorded report is of the beginning, and a node without an agent has no later one.
        """
        if not self._nodes[node].agent_reports:
            return 0.0
        interval = self._scenario.report_interval_seconds
        periods = (now_seconds - self._phase[node]) // interval
        return max(self._phase[node] + periods * interval, 0.0)

    def _report(self, index: int, at_seconds: float) -> dict[str, Any]:
        node = self._nodes[index]
        step = max(math.ceil(at_seconds / self._scenario.step_seconds) - 1, 0)
        window = slice(max(step + 1 - self._longest_steps, 0), step + 1)
        used = np.minimum(self.demand[:, index, window], self._capacity[index][:, np.newaxis])
        demand = self.demand[:, index, step]
        granted = used[:, -1] / np.where(demand > 0, demand, 1)
        used[1] = np.maximum(used[1], 1.0)  # a memory of 0 would not count as measured
        spec = dict((node.recorded or {}).get("spec") or {})
        spec["metricCollectPolicy"] = {"reportIntervalSeconds": round(self._scenario.report_interval_seconds)}
        return {
            "metadata": {"name": node.node.metadata.name},
            "spec": spec,
            "status": {
                "updateTime": times.format_epoch(self._scenario.began_at + at_seconds),
                "nodeMetric": {
                    "nodeUsage": _resources(used[:, -1]),
                    "systemUsage": _resources(np.array(node.other_usage) * granted),
                    "aggregatedNodeUsages": self._aggregated(node, used),
                },
                "podsMetric": self._pods(index, step, granted),
            },
        }

    def _aggregated(self, node: SimulatedNode, used: Floats) -> list[Any]:
        """Return the statistics of each window that is at least half covered, else the recorded ones, if any."""
        status = (node.recorded or {}).get("status") or {}
        recorded = (status.get("nodeMetric") or {}).get("aggregatedNodeUsages") or ()
        result = []
        for duration, seconds in _WINDOWS_SECONDS.items():
            steps = max(round(seconds / self._scenario.step_seconds), 1)
            if 2 * used.shape[1] >= steps:
                result.append({"duration": duration, "usage": _statistics(used[:, -steps:])})
            else:
                result += [usage for usage in recorded if _seconds(usage.get("duration")) == seconds]
        return result

    def _pods(self, index: int, step: int, granted: Floats) -> list[Any]:
        stays = self._stays[index] = [stay for stay in self._stays[index] if stay.end > step]
        return [
            {
                "name": stay.pod.pod.metadata.name,
                "namespace": stay.pod.pod.metadata.namespace,
                "podUsage": _resources(
                    stay.pod.usage[:, min(step - stay.first, stay.pod.usage.shape[1] - 1)] * granted
                ),
                "priority": priority_and_qos.priority_class(stay.pod.pod).value,
            }
            for stay in stays
            if stay.first <= step
        ]


def _as_received(document: Mapping[str, Any]) -> NodeMetric:
    return msgspec.json.decode(msgspec.json.encode(document), type=NodeMetric)


def _seconds(duration: Any) -> float | None:
    try:
        return times.duration_nanos(duration) / 10**9
    except (TypeError, ValueError):
        return None


def _statistics(used: Floats) -> dict[str, Any]:
    """Compute the statistics of samples of shape (2, count), all with the same weight."""
    count = used.shape[1]
    mean = used.sum(axis=1) / count
    deviation = np.sqrt(((used - mean[:, np.newaxis]) ** 2).sum(axis=1) / count)
    places = [max(math.trunc(count * share) - 1, 0) for share in _QUANTILES.values()]
    values = np.column_stack([mean, deviation, np.sort(used, axis=1)[:, places]])
    return {name: _resources(column) for name, column in zip(("avg", "std", *_QUANTILES), values.T, strict=True)}


def _resources(amounts: Floats) -> dict[str, Any]:
    cpu_millis, memory_bytes = np.rint(amounts).astype(np.int64).tolist()
    return {"resources": {names.CPU: f"{cpu_millis}m", names.MEMORY: str(memory_bytes)}}


def _stretch(usage: Floats, steps: int) -> Floats:
    """Return the first `steps` steps; the last given step is repeated."""
    missing = steps - usage.shape[1]
    return usage[:, :steps] if missing <= 0 else np.pad(usage, ((0, 0), (0, missing)), mode="edge")


def _capacity(node: pods.Node) -> tuple[float, float]:
    """Return the capacity of a node; unlimited if its status has none."""
    try:
        units = pods.units(node.status.capacity or node.status.allocatable)
    except quantities.InvalidQuantity:
        units = {}
    return units.get(names.CPU, math.inf), units.get(names.MEMORY, math.inf)


def utilization(demand: Floats, nodes: Sequence[SimulatedNode]) -> Floats:
    """Compute demand as a share of allocatable, in the shape of `demand`; 0 for a node without allocatable."""
    allocatable = [pods.units(node.node.status.allocatable) for node in nodes]
    total = np.array([[node.get(name, 0) for node in allocatable] for name in (names.CPU, names.MEMORY)], dtype=float)
    result: Floats = np.divide(
        demand, total[:, :, np.newaxis], out=np.zeros_like(demand), where=total[:, :, np.newaxis] > 0
    )
    return result

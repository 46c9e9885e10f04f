"""Input of a replay: nodes, running and arriving pods, and the usage of each on a grid of equal steps. Pure.

Step k covers the time from k to k + 1 steps after the beginning; usage is constant within a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from api_types.kubernetes import pods
from scheduler_plugin.state.node_columns import Floats

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


def from_series(
    *,
    node_count: int,
    node_cpu_millis: int,
    node_memory_bytes: int,
    cpu_millis: Sequence[Floats],
    request_cpu_millis: Sequence[int],
    step_seconds: float,
    steps: int,
    memory_bytes: Sequence[Floats] | None = None,
    request_memory_bytes: Sequence[int] | None = None,
    at_seconds: Sequence[float] | None = None,
    lifetime_seconds: Sequence[float] | None = None,
    priority: int = 9000,
    pods_per_node: int = 110,
) -> Scenario:
    """Build a scenario of equal nodes and one pod for each series of CPU usage by step from its start.

    The default `priority` is koord-prod's. Without `memory_bytes` a pod uses all memory that it requests; without
    `request_memory_bytes` it requests none. Without `at_seconds` all pods arrive at once, in their order; without
    `lifetime_seconds` they never end. Raises ValueError for an empty series, and for values that are negative, infinite
    or NaN.
    """
    allocatable: pods.QuantityMap = {
        "cpu": f"{node_cpu_millis}m",
        "memory": str(node_memory_bytes),
        "pods": str(pods_per_node),
    }
    status = pods.NodeStatus(capacity=allocatable, allocatable=allocatable)
    count, simulated = len(cpu_millis), []
    starts = at_seconds if at_seconds is not None else [0.0] * count
    lifetimes = lifetime_seconds if lifetime_seconds is not None else [math.inf] * count
    for index, (cpu, cpu_request) in enumerate(zip(cpu_millis, request_cpu_millis, strict=True)):
        memory_request = request_memory_bytes[index] if request_memory_bytes is not None else 0
        memory = memory_bytes[index] if memory_bytes is not None else np.full(len(cpu), float(memory_request))
        usage = np.array([cpu, memory], dtype=np.float64)
        if not usage.size or not np.isfinite(usage).all() or usage.min() < 0:
            steps_text = f"all of its {usage.shape[1]} steps are numbers of 0 or more"
            raise ValueError(f"series {index} is empty, or not {steps_text}")
        requests: pods.QuantityMap = {"cpu": f"{cpu_request}m", "memory": str(memory_request)}
        pod = new_pod(f"pod-{index}", requests, priority)
        simulated.append(SimulatedPod(pod, usage, starts[index], lifetimes[index]))
    width = len(str(max(node_count - 1, 0)))
    nodes = [
        SimulatedNode(pods.Node(metadata=pods.ObjectMeta(name=f"node-{index:0{width}}"), status=status))
        for index in range(node_count)
    ]
    return Scenario(nodes, simulated, step_seconds, steps)


def new_pod(name: str, requests: pods.QuantityMap, priority: int) -> pods.Pod:
    """Build a pod of one container with limits equal to its requests."""
    resources = pods.ResourceRequirements(requests=requests, limits=requests)
    return pods.Pod(
        metadata=pods.ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=pods.PodSpec(containers=[pods.Container(name="main", resources=resources)], priority=priority),
    )

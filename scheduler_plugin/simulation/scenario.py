"""What is replayed: nodes, pods that run or arrive, and what each will use, on a grid of even steps. Pure.

Step k covers the time from k to k + 1 steps after the beginning; what is given for it holds throughout.
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
"""Moment at which a scenario begins that was not recorded anywhere, seconds since the epoch."""


@dataclass(frozen=True, eq=False)
class SimulatedPod:
    """A pod. One whose `spec.nodeName` is set runs there from the beginning, any other has to be placed."""

    pod: pods.Pod
    usage: Floats
    """Shape (2, steps): CPU in milli-cores and memory in bytes, by step from its start; the last step holds on."""
    at_seconds: float = 0.0
    """When it arrives, after the beginning."""
    lifetime_seconds: float = math.inf
    """How long it runs once it is placed."""


@dataclass(frozen=True, eq=False)
class SimulatedNode:
    """A node."""

    node: pods.Node
    other_usage: tuple[float, float] = (0.0, 0.0)
    """CPU in milli-cores and memory in bytes of everything that is no simulated pod, at all times."""
    recorded: Mapping[str, Any] | None = None
    """The NodeMetric known at the beginning; None: its agent makes one at that moment."""
    agent_reports: bool = True
    """Whether an agent goes on reporting; otherwise the recorded report, or none, is all there ever is."""


@dataclass(frozen=True, eq=False)
class Scenario:
    """Everything that does not depend on who places the pods."""

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
    """Equal nodes, and one pod a series of CPU usage by step from its start (koord-prod unless `priority` differs).

    Without `memory_bytes` a pod uses all the memory it requests; without `request_memory_bytes` that is nothing.
    Without `at_seconds` all arrive at once, in their order; without `lifetime_seconds` they stay. Raises ValueError
    for a series that is empty, or holds what cannot be used.
    """
    allocatable: pods.QuantityMap = {
        "cpu": f"{node_cpu_millis}m",
        "memory": str(node_memory_bytes),
        "pods": str(pods_per_node),
    }
    status = pods.NodeStatus(capacity=allocatable, allocatable=allocatable)
    simulated = []
    for index, (cpu, cpu_request) in enumerate(zip(cpu_millis, request_cpu_millis, strict=True)):
        memory_request = request_memory_bytes[index] if request_memory_bytes is not None else 0
        memory = memory_bytes[index] if memory_bytes is not None else np.full(len(cpu), float(memory_request))
        usage = np.array([cpu, memory], dtype=np.float64)
        if not usage.size or not np.isfinite(usage).all() or usage.min() < 0:
            raise ValueError(
                f"series {index} is empty, or not all of its {usage.shape[1]} steps are numbers of 0 or more"
            )
        wanted: pods.QuantityMap = {"cpu": f"{cpu_request}m", "memory": str(memory_request)}
        simulated.append(
            SimulatedPod(
                new_pod(f"pod-{index}", wanted, priority),
                usage,
                at_seconds=at_seconds[index] if at_seconds is not None else 0.0,
                lifetime_seconds=lifetime_seconds[index] if lifetime_seconds is not None else math.inf,
            )
        )
    width = len(str(max(node_count - 1, 0)))
    nodes = [
        SimulatedNode(pods.Node(metadata=pods.ObjectMeta(name=f"node-{index:0{width}}"), status=status))
        for index in range(node_count)
    ]
    return Scenario(nodes, simulated, step_seconds, steps)


def new_pod(name: str, requests: pods.QuantityMap, priority: int) -> pods.Pod:
    """Make a pod of one container, limited to what it requests."""
    resources = pods.ResourceRequirements(requests=requests, limits=requests)
    return pods.Pod(
        metadata=pods.ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=pods.PodSpec(containers=[pods.Container(name="main", resources=resources)], priority=priority),
    )

"""Make a scenario of the placement simulation of numpy series, one for each pod."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from api_types.kubernetes import pods
from scheduler_plugin.simulation.scenario import Scenario, SimulatedNode, SimulatedPod
from scheduler_plugin.state.node_columns import Floats


def from_series(
    *,
    node_count: int,
    node_cpu_millis: int,
    node_memory_bytes: int,
    cpu_millis: Sequence[Floats],
    request_cpu_millis: Sequence[int],
    step_seconds: float,
    steps: int,
    request_memory_bytes: Sequence[int] | None = None,
    at_seconds: Sequence[float] | None = None,
    lifetime_seconds: Sequence[float] | None = None,
) -> Scenario:
    """Build a scenario of equal nodes and one Prod pod for each series of CPU usage by step from its start.

    A pod uses all memory that it requests; without `request_memory_bytes` it requests none. Without `at_seconds` all
    pods arrive at once, in their order; without `lifetime_seconds` they never end. Raises ValueError for an empty
    series, and for values that are negative, infinite or NaN.
    """
    allocatable: pods.QuantityMap = {"cpu": f"{node_cpu_millis}m", "memory": str(node_memory_bytes), "pods": "110"}
    status = pods.NodeStatus(capacity=allocatable, allocatable=allocatable)
    count, simulated = len(cpu_millis), []
    starts = at_seconds if at_seconds is not None else [0.0] * count
    lifetimes = lifetime_seconds if lifetime_seconds is not None else [math.inf] * count
    for index, (cpu, cpu_request) in enumerate(zip(cpu_millis, request_cpu_millis, strict=True)):
        memory_request = request_memory_bytes[index] if request_memory_bytes is not None else 0
        usage = np.array([cpu, np.full(len(cpu), float(memory_request))], dtype=np.float64)
        if not usage.size or not np.isfinite(usage).all() or usage.min() < 0:
            steps_text = f"all of its {usage.shape[1]} steps are numbers of 0 or more"
            raise ValueError(f"series {index} is empty, or not {steps_text}")
        requests: pods.QuantityMap = {"cpu": f"{cpu_request}m", "memory": str(memory_request)}
        resources = pods.ResourceRequirements(requests=requests, limits=requests)
        pod = pods.Pod(
            metadata=pods.TenantMeta(name=f"pod-{index}", namespace="default", uid=f"uid-pod-{index}"),
            spec=pods.PodSpec(containers=[pods.Container(name="main", resources=resources)], priority=9000),
        )
        simulated.append(SimulatedPod(pod, usage, starts[index], lifetimes[index]))
    width = len(str(max(node_count - 1, 0)))
    nodes = [
        SimulatedNode(pods.Node(metadata=pods.ObjectMeta(name=f"node-{index:0{width}}"), status=status))
        for index in range(node_count)
    ]
    return Scenario(nodes, simulated, step_seconds, steps)

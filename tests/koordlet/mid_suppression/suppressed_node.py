"""A node of Mid pods whose limits follow a planner, second by second, without waiting."""

from __future__ import annotations

import dataclasses

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.mid_pods.cpu_limits import MidContainer, ResizablePod
from koordlet.cluster.pods import PodOnNode
from koordlet.mid_suppression.node_usage import CoresByPart
from koordlet.mid_suppression.planner import Change, NodeCpu, Planner
from tests.koordlet.one_node import bound_pod


def limited(name: str, *mid: int, originals: tuple[int, ...] = (), floor: int = 10) -> PodOnNode:
    """Return a Mid pod with one container for each amount of Mid CPU, at its original limit."""
    given = originals or mid
    containers = tuple(
        MidContainer(f"c{index}", f"c{index}", millis, min(floor, given[index]), given[index], given[index], millis)
        for index, millis in enumerate(mid)
    )
    return bound_pod(name, PriorityClass.MID, mid=ResizablePod("1", containers))


class SuppressedNode:
    """A node, of which half a core is reserved; each patch is seen by the watch in the next second."""

    def __init__(self, *pods: PodOnNode, threshold: int = 65, began: float = 1000.0, cores: int = 10) -> None:
        self.pods = {pod.name: pod for pod in pods}
        self.threshold = threshold
        self.now = began
        self.planner = Planner(began)
        self.node: NodeCpu | None = NodeCpu(1000 * cores, 0.5)
        self.cores = cores
        self.usage: CoresByPart | None = CoresByPart(2.0, 1.0, 0.5)
        self.is_followed = True
        """Whether the watch shows what was patched."""
        self.patches: list[tuple[float, Change]] = []

    def use(self, prod: float, mid: float = 0.0, system: float = 0.5) -> None:
        """Set the usage from now on, in cores."""
        self.usage = CoresByPart(prod + mid + system, prod, system)

    def run(self, seconds: int) -> list[Change]:
        """Return what was changed in that time."""
        before = len(self.patches)
        for _ in range(seconds):
            self.now += 1
            if self.usage is not None:
                self.planner.recent.add(self.now - 1, self.now, self.usage, self.threshold * self.cores / 100)
            for change in self.planner.plan(self.now, self.threshold, self.node, list(self.pods.values())):
                self.planner.sent(self.now, change)
                self.patches.append((self.now, change))
                self.planner.done(change)
                if self.is_followed:
                    self.pods[change.pod.name] = patched(self.pods[change.pod.name], change)
        return [change for _, change in self.patches[before:]]

    def restart(self) -> None:
        """Start another agent: it knows the pods as the API server has them, and nothing else."""
        self.planner = Planner(self.now)

    def limits(self) -> list[int]:
        """Return the limit of every container."""
        return [each.limit_millis for pod in self.pods.values() if pod.mid for each in pod.mid.containers]

    def originals(self) -> list[int]:
        """Return the original limit of every container."""
        return [each.original_millis for pod in self.pods.values() if pod.mid for each in pod.mid.containers]


def patched(pod: PodOnNode, change: Change) -> PodOnNode:
    """Return the pod as the API server has it after the change."""
    assert pod.mid is not None
    containers = tuple(
        dataclasses.replace(each, limit_millis=change.limits.get(each.key, each.limit_millis))
        for each in pod.mid.containers
    )
    version = str(int(pod.mid.resource_version) + 1)
    return dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, resource_version=version, containers=containers))

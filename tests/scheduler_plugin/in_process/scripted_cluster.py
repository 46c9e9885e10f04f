"""Random clusters, and what happens in them: the same script runs under every scheduler. Time is in steps of 2 s."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from tests.scheduler_plugin import factories

STEP_SECONDS = 2
REPORT_STEPS = 5
"""Steps between two reports of a node."""
EXPIRATION_SECONDS = 30
MEBIBYTE = 1024**2


@dataclasses.dataclass(frozen=True)
class ScriptedPod:
    """A pod, and what happens to it. Times are steps; `lifetime` begins with its binding."""

    name: str
    priority: int
    cpu_millis: int
    memory_mib: int
    usage_percent: int
    """Usage once it runs, in percent of its requests."""
    arrives: int
    lifetime: int
    grace: int = 2
    """Time that it takes to end after an eviction."""
    binds_after: int = 0
    """Time that its volume takes; such a pod has a claim."""
    failing_binds: int = 0
    leaves: int = 10**6
    """Time at which its owner deletes it."""

    def document(self, node: str = "", *, bound_at: float | None = None, nominated: str = "") -> dict[str, Any]:
        """Return the object as the API server has it; `bound_at` is relative to the begin."""
        requests = {"cpu": f"{self.cpu_millis}m", "memory": f"{self.memory_mib}Mi"}
        result = factories.pod_document(
            self.name, node=node, priority=self.priority, requests=requests, scheduled=bound_at
        )
        if self.binds_after:
            result["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"{self.name}-data"}}]
        if nominated:
            result["status"]["nominatedNodeName"] = nominated
        return result


@dataclasses.dataclass(frozen=True)
class ScriptedNode:
    """A node, with the usage of everything but pods from each step on, and the steps in which it sends no report."""

    name: str
    cpu_millis: int
    memory_mib: int
    other_usage: tuple[tuple[int, int], ...]
    """(step, milli-cores), ascending."""
    first_report: int = 0
    silent: range = range(0)

    def reports_at(self, step: int) -> bool:
        """Return whether the node sends a report."""
        return step >= self.first_report and (step - self.first_report) % REPORT_STEPS == 0 and step not in self.silent

    def other_usage_at(self, step: int) -> int:
        """Return the usage of everything but pods in milli-cores."""
        return [millis for since, millis in self.other_usage if since <= step][-1]


@dataclasses.dataclass(frozen=True)
class Script:
    """A cluster and its events."""

    nodes: tuple[ScriptedNode, ...]
    pods: tuple[ScriptedPod, ...]
    steps: int = 40
    in_tree_scores: bool = False
    """Whether LeastAllocated scores too, with the weight of LoadAware."""
    args: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Report:
    """What a node's agent reports. Usage is in milli-cores and MiB."""

    node: str
    at: float
    usage: tuple[int, int]
    pods: dict[str, tuple[int, int]]


def report(node: ScriptedNode, running: dict[ScriptedPod, int], step: int) -> Report:
    """Return the report of a node; `running` has the step of the binding of each pod."""
    pods, cpu, memory = {}, node.other_usage_at(step), 512
    for pod, since in running.items():
        if since < step:
            used = pod.cpu_millis * pod.usage_percent // 100, pod.memory_mib * pod.usage_percent // 100
            cpu, memory, pods[pod.name] = cpu + used[0], memory + used[1], used
    usage = min(cpu, node.cpu_millis), min(memory, node.memory_mib)
    return Report(node.name, step * STEP_SECONDS, usage, pods)


def drawn(seed: int, *, in_tree_scores: bool, volumes: bool) -> Script:
    """Return a random script. Priorities differ, so that the order of the pods does not depend on the attempts."""
    chance = random.Random(f"script {seed} {in_tree_scores} {volumes}")
    nodes = tuple(_node(chance, f"n{index}", may_fall_silent=not index) for index in range(chance.randint(2, 6)))
    count = chance.randint(5, 30)
    priorities = chance.sample(range(1000), count)
    pods = tuple(_pod(chance, f"p{index}", 9000 + priorities[index], volumes) for index in range(count))
    return Script(nodes, pods, in_tree_scores=in_tree_scores)


def _node(chance: random.Random, name: str, *, may_fall_silent: bool) -> ScriptedNode:
    cpu_millis = chance.choice([4000, 8000, 16000])
    changes = [0, *sorted(chance.sample(range(1, 40), chance.randrange(4)))]
    other = tuple((step, chance.choice([5, 20, 40, 64, 66, 90]) * cpu_millis // 100) for step in changes)
    silent_since = chance.randrange(5, 30) if may_fall_silent and chance.random() < 0.5 else 99
    return ScriptedNode(
        name,
        cpu_millis,
        chance.choice([16384, 32768]),
        other,
        chance.randrange(REPORT_STEPS),
        range(silent_since, silent_since + 20),
    )


def _pod(chance: random.Random, name: str, priority: int, volumes: bool) -> ScriptedPod:
    arrives = chance.choice([0, 0, chance.randrange(38)])
    return ScriptedPod(
        name,
        priority,
        cpu_millis=chance.choice([250, 500, 1000, 2000, 3000, 6000]),
        memory_mib=chance.choice([256, 1024, 4096, 8192]),
        usage_percent=chance.choice([5, 30, 60, 100, 130]),
        arrives=arrives,
        lifetime=chance.choice([10**6, 10**6, chance.randrange(3, 30)]),
        grace=chance.choice([1, 2, 6, 12]),
        binds_after=chance.choice([0, 0, 2, 5, 15]) if volumes else 0,
        failing_binds=chance.choice([0, 0, 0, 0, 1, 2]),
        leaves=chance.choice([10**6, 10**6, 10**6, 10**6, arrives + chance.randrange(1, 30)]),
    )

"""LoadAware as a plugin inside kube-scheduler: Filter, Score, Reserve, queueing hints; CPU and memory of Prod pods.

Written plainly from Koordinator's rules; it shares no code with the product.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal

from tests.scheduler_plugin.in_process.scripted_cluster import (
    EXPIRATION_SECONDS,
    MEBIBYTE,
    REPORT_STEPS,
    STEP_SECONDS,
    Report,
    Script,
    ScriptedPod,
)

LIMITS_PERCENT = 65, 95
FACTORS_PERCENT = 85, 70
INTERVAL_SECONDS = REPORT_STEPS * STEP_SECONDS


def round_half_away(value: float) -> int:
    """Round as Go does."""
    return int(Decimal(value).quantize(Decimal(1), ROUND_HALF_UP))


def estimate(pod: ScriptedPod) -> tuple[int, int]:
    """Return the estimated usage: milli-cores and bytes."""
    cpu, memory = (
        round_half_away(float(request) * factor / 100)
        for request, factor in zip((pod.cpu_millis, pod.memory_mib * MEBIBYTE), FACTORS_PERCENT, strict=True)
    )
    return cpu, memory


@dataclasses.dataclass
class _Node:
    allocatable: tuple[int, int]
    updated_at: float = -math.inf
    usage: tuple[int, int] | None = None
    reported: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    assigned: dict[str, tuple[ScriptedPod, float]] = dataclasses.field(default_factory=dict)
    """Pod and the time of its assignment, by name."""

    def used(self) -> list[int]:
        assert self.usage is not None
        result = list(self.usage)
        for pod, since in self.assigned.values():
            shown = self.reported.get(pod.name)
            if shown is None or self.updated_at - INTERVAL_SECONDS < since:
                for index, expected in enumerate(estimate(pod)):
                    result[index] += max(0, expected - (shown[index] if shown else 0))
        return result


class PluginInside:
    """The plugin, over the nodes of a script."""

    def __init__(self, script: Script) -> None:
        self._nodes = {each.name: _Node((each.cpu_millis, each.memory_mib * MEBIBYTE)) for each in script.nodes}
        self._now = 0.0

    # Filter and Score

    def passes(self, pod: ScriptedPod, node: str) -> bool:
        found = self._nodes[node]
        if found.usage is None:
            return True
        if self._now - found.updated_at >= EXPIRATION_SECONDS:
            return False
        parts = zip(found.used(), estimate(pod), found.allocatable, LIMITS_PERCENT, strict=True)
        return all(
            round_half_away(float(used + own) / float(total) * 100) <= limit for used, own, total, limit in parts
        )

    def scores(self, pod: ScriptedPod, nodes: Sequence[str]) -> Mapping[str, int]:
        return {name: self._score(pod, self._nodes[name]) for name in nodes}

    def _score(self, pod: ScriptedPod, node: _Node) -> int:
        if node.usage is None or self._now - node.updated_at >= EXPIRATION_SECONDS:
            return 0
        parts = zip(node.used(), estimate(pod), node.allocatable, strict=True)
        return sum(max(0, total - used - own) * 100 // total for used, own, total in parts) // 2

    # Reserve, and the watches

    def reserve(self, pod: ScriptedPod, node: str) -> None:
        self._nodes[node].assigned[pod.name] = pod, self._now

    def unreserve(self, pod: ScriptedPod) -> None:
        for node in self._nodes.values():
            node.assigned.pop(pod.name, None)

    def pod_bound(self, pod: ScriptedPod, node: str, at: float) -> None:
        self._nodes[node].assigned[pod.name] = pod, at

    def pod_gone(self, pod: ScriptedPod) -> None:
        self.unreserve(pod)

    def report_changed(self, report: Report) -> None:
        node = self._nodes[report.node]
        node.updated_at, node.usage = report.at, _bytes(report.usage)
        node.reported = {name: _bytes(usage) for name, usage in report.pods.items()}

    def clock_moved(self, seconds: float) -> None:
        self._now = seconds

    def hint(self, node: str, waiting: Sequence[ScriptedPod]) -> Iterable[ScriptedPod]:
        return [pod for pod in waiting if self.passes(pod, node)]

    def woken(self) -> Iterable[str]:
        return ()

    def refused(self, pod: ScriptedPod, nodes: Iterable[str]) -> None: ...
    def pod_waits(self, pod: ScriptedPod) -> None: ...


def _bytes(usage: tuple[int, int]) -> tuple[int, int]:
    return usage[0], usage[1] * MEBIBYTE

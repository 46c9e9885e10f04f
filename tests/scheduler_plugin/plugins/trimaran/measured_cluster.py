"""In-memory cluster with the measurements of a load watcher document, and one Trimaran plugin over it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from api_types.kubernetes import pods
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot, Windows
from scheduler_plugin.state import pod_info

NOW = 1_700_000_000.0
GIB = 2**30


def pod(cpu: str | None = None, memory: str | None = None, limit_cpu: str | None = None, **spec: Any) -> dict[str, Any]:
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount is not None}
    limits = {"cpu": limit_cpu} if limit_cpu is not None else {}
    return {"containers": [{"name": "main", "resources": {"requests": requests, "limits": limits}}], **spec}


def metrics(
    cpu: float | None = None, memory: float | None = None, cpu_std: float | None = None, memory_std: float | None = None
) -> NodeMetrics:
    given = [("CPU", "AVG", cpu), ("Memory", "AVG", memory), ("CPU", "STD", cpu_std), ("Memory", "STD", memory_std)]
    return NodeMetrics(
        [Metric(type=kind, operator=how, value=value) for kind, how, value in given if value is not None]
    )


class MeasuredCluster:
    """Cluster with nodes of 4 cores and 8 GiB by default."""

    def __init__(self, plugin: str, measurement_age_seconds: float = 300.0, **args: Any) -> None:
        chosen = loader.parse(
            {
                "plugins": {"score": {"enabled": [{"name": plugin}]}},
                "pluginConfig": [{"name": plugin, "args": args}],
            }
        )
        self.parts = assembly.Parts(chosen, measurement_age_seconds=measurement_age_seconds)
        (self.plugin,) = self.parts.measured
        self.windows = Windows(math.inf)
        self._placed = 0

    def node(
        self, name: str, *, capacity: Mapping[str, str] | None = None, allocatable: Mapping[str, str] | None = None
    ) -> None:
        has = dict(capacity or {"cpu": "4", "memory": "8Gi"})
        status = {"capacity": has, "allocatable": dict(allocatable or has)}
        wire = {"metadata": {"name": name}, "status": status}
        self.parts.cluster.node_changed(msgspec.convert(wire, type=pods.Node))

    def place(self, node: str, spec: Mapping[str, Any], age_seconds: float = 3600.0) -> str:
        self._placed += 1
        uid = f"placed-{self._placed}"
        placed = _pod(uid, {**spec, "nodeName": node})
        self.parts.cluster.pod_changed(placed, NOW - age_seconds)
        return uid

    def measure(self, nodes: Mapping[str, NodeMetrics], *, duration: str = "15m", age_seconds: float = 0.0) -> None:
        window = records.window_ending_at(duration, NOW - age_seconds)
        self.windows.store(Snapshot(window.end, window, "Prometheus", Data(dict(nodes))))
        self.refresh()

    def refresh(self, now: float = NOW) -> None:
        self.parts.measurements.select(self.windows, now)
        for entry in self.parts.cluster.entries.values():
            self.parts.vectors.write(entry)
        self.parts.measurements.confirm_rows()

    def scores(self, spec: Mapping[str, Any], names: Sequence[str], now: float = NOW) -> list[int]:
        facts = pod_info.read(_pod("incoming", spec), self.parts.estimator_args)
        rows = self.parts.vectors.find(list(names))
        by_plugin = {own.plugin: own.scores for own in self.parts.cycle.scores_by_plugin(facts, rows, now)}
        scores: list[int] = by_plugin[self.plugin.name].tolist()
        return scores

    def fallback_levels(self, names: Sequence[str], now: float = NOW) -> list[int]:
        """Return the levels of CPU."""
        levels: list[int] = self.plugin.columns.fallback_levels(self.parts.vectors.find(list(names)), now)[0].tolist()
        return levels


def _pod(uid: str, spec: Mapping[str, Any]) -> pods.Pod:
    return msgspec.convert({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec}, type=pods.Pod)

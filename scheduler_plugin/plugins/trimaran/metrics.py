"""Count the nodes at each fallback level of the Trimaran plugins. Every label is from a fixed set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from prometheus_client import metrics_core, registry

from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.node_columns import RESOURCES
from scheduler_plugin.state.node_columns import NodeColumns

_PREFIX: Final = "koord_scheduler_plugin_"


class FallbackCollector(registry.Collector):
    """Collector of the number of nodes at each fallback level, which all Trimaran plugins share."""

    def __init__(self, plugin: MeasuredPlugin, vectors: NodeColumns, clock: Callable[[], float]) -> None:
        self._plugin = plugin
        self._vectors = vectors
        self._clock = clock

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        family = metrics_core.GaugeMetricFamily(
            f"{_PREFIX}fallback_level_nodes",
            "Nodes by fallback level of Trimaran (docs/reference/scheduler-plugins/target-load-packing.md).",
            labels=["resource", "level"],
        )
        rows = np.fromiter(list(self._vectors.rows.values()), dtype=np.intp)
        for resource, levels in zip(RESOURCES, self._plugin.fallback_levels(rows, self._clock()), strict=True):
            counts = np.bincount(levels, minlength=len(FallbackLevel))
            for level in FallbackLevel:
                family.add_metric([resource, level.name.lower()], int(counts[level]))
        yield family

"""Assemble the parts of a process: configuration -> plugins -> rows -> verbs or answers. No I/O."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from prometheus_client.registry import Collector

from scheduler_plugin.config.loader import PluginConfiguration
from scheduler_plugin.decisions.metrics import DecisionCollector, DecisionCounts, MidQuotaCollector, NodeCollector
from scheduler_plugin.decisions.recorder import DecisionRecords
from scheduler_plugin.extender.verbs import Extender
from scheduler_plugin.framework.interface import Filter, Plugin, SchedulingCycle, Scorer
from scheduler_plugin.kube_scheduler.answers import Answers
from scheduler_plugin.kube_scheduler.refused_pods import RefusedPods
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.mid_guard import MidGuard, MidGuardArgs
from scheduler_plugin.plugins.trimaran import args as trimaran_args
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.load_waits import LoadWaits
from scheduler_plugin.state.node_columns import NodeColumns


class Parts:
    """Objects of one process, from its configuration to its verbs, or its answers."""

    def __init__(
        self,
        configuration: PluginConfiguration,
        *,
        measurement_age_seconds: float = records.OLDEST_SECONDS,
        record_bytes: int = 16 * 1024**2,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        load_aware_args = configuration.args[LoadAware.name]
        assert isinstance(load_aware_args, LoadAwareArgs)
        mid_guard_args = configuration.args.get(MidGuard.name, MidGuardArgs())
        assert isinstance(mid_guard_args, MidGuardArgs)
        self.holds_quotas = MidGuard.name in configuration.filters and mid_guard_args.namespace_quotas
        """Whether the annotations of Namespaces count."""
        running = {*configuration.filters, *configuration.score_weights}
        self.provider_specs = trimaran_args.common_specs({name: configuration.args[name] for name in sorted(running)})
        self.estimator_args = dataclasses.replace(
            load_aware_args.estimator_args(), with_demand=bool(self.provider_specs)
        )
        self.measurements = Measurements(measurement_age_seconds, provider_spec.rate_seconds(self.provider_specs))
        plugins = {name: registry.PLUGINS[name].create(configuration.args[name], self.measurements) for name in running}
        self.measured = [plugin for plugin in plugins.values() if isinstance(plugin, MeasuredPlugin)]
        """Plugins that read the load watcher's measurements."""
        self.resources = self.estimator_args.resources
        self._expiration_seconds = float(load_aware_args.node_metric_expiration_seconds or math.inf)
        self._load_aware = next((plugin for plugin in plugins.values() if isinstance(plugin, LoadAware)), None)
        self.vectors = NodeColumns(list(plugins.values()))
        self.records = DecisionRecords(self.vectors, dict(sorted(plugins.items())), record_bytes)
        self.cluster = Cluster(
            self.estimator_args,
            self.vectors,
            system_in_prod=load_aware_args.prod_usage_include_sys,
            monotonic=monotonic,
        )
        self.cycle = _cycle(configuration, plugins, self.vectors)
        self.vectors.mid_quotas.default = mid_guard_args.quota()
        self.waits = LoadWaits(load_aware_args.soft_after_seconds)
        self.refused = RefusedPods(self.cycle, self.vectors, len(self.resources), self.waits)
        self.counts = DecisionCounts(len(self.cycle.reasons))
        deciding = self.cluster, self.cycle, self.estimator_args, self.records, self.waits, self.counts
        self.extender = Extender(*deciding)
        self.answers = Answers(*deciding, self.refused)

    def check_blindness(self, silent_seconds: float | None, now: float) -> str:
        """Decide whether expired nodes pass, and return the cause; `silent_seconds` is of the NodeMetrics' watch."""
        rows = np.fromiter(self.vectors.rows.values(), dtype=np.intp, count=len(self.vectors.rows))
        updated_at = np.full(len(self.vectors.changed_at), np.nan)
        updated_at[rows] = self.vectors.updated_at[rows]  # NaN without a report, which never expires
        state = self.cluster.pools.blindness(
            silent_seconds, ~np.isnan(updated_at), updated_at + self._expiration_seconds <= now
        )
        self.vectors.blindness, self.vectors.is_blind = state
        return self.vectors.blindness

    def collectors(self) -> Sequence[Collector]:
        """Return the Prometheus collectors of these parts."""
        reasons = list(zip(self.cycle.rejecting_plugins, self.cycle.reasons, strict=True))
        return (
            DecisionCollector(reasons, self.counts, self.records, self.waits),
            MidQuotaCollector(self.vectors.mid_quotas),
            NodeCollector(self.vectors, self._load_aware, time.time),
        )


def _cycle(configuration: PluginConfiguration, plugins: Mapping[str, Plugin], vectors: NodeColumns) -> SchedulingCycle:
    """Return the cycle. Raises TypeError if a plugin lacks its extension point: left out, it allows all."""
    filters: list[Filter] = []
    scorers: list[tuple[Scorer, int]] = []
    for name in configuration.filters:
        if not isinstance(plugin := plugins[name], Filter):
            raise TypeError(f"plugin {name} is no Filter")
        filters.append(plugin)
    for name, weight in configuration.score_weights.items():
        if not isinstance(plugin := plugins[name], Scorer):
            raise TypeError(f"plugin {name} is no Scorer")
        scorers.append((plugin, weight))
    return SchedulingCycle(filters, scorers, vectors)

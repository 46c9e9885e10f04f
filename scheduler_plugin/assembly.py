"""Assemble an extender: configuration -> plugins -> rows -> verbs. No I/O."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from prometheus_client.registry import Collector

from scheduler_plugin.config.loader import PluginConfiguration
from scheduler_plugin.decisions import recorder
from scheduler_plugin.decisions.metrics import DecisionCollector, MidQuotaCollector, NodeCollector, QueueingCollector
from scheduler_plugin.decisions.recorder import DecisionRecords
from scheduler_plugin.extender.response_rows import ResponseRows
from scheduler_plugin.extender.verbs import Extender
from scheduler_plugin.framework.interface import Filter, Plugin, SchedulingCycle, Scorer, WeightedScorer
from scheduler_plugin.kube_scheduler.answers import Answers
from scheduler_plugin.kube_scheduler.node_table import NodeTable
from scheduler_plugin.load_watcher import records
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.mid_guard import MidGuard, MidGuardArgs
from scheduler_plugin.plugins.trimaran import args as trimaran_args
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.queueing.load_waits import LoadWaits
from scheduler_plugin.queueing.refused_pods import RefusedPods
from scheduler_plugin.queueing.reservations import Reservations
from scheduler_plugin.state import waiting_pods
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.node_columns import NodeColumns
from scheduler_plugin.state.waiting_pods import WaitingPod, WaitingPods

_INSIDE: Final[Mapping[str, Any]] = {"per_second": 1000.0, "only_named": True}
"""Refused pods are woken by a frame, and no request: a burst is limited by the room of the nodes alone."""


class Parts:
    """Objects of one process, from its configuration to its verbs, or its answers.

    `inside`: for the plugin inside kube-scheduler, which has pods tried again at once.
    """

    def __init__(
        self,
        configuration: PluginConfiguration,
        *,
        assumed_ttl_seconds: float,
        short_list: int = 0,
        measurement_age_seconds: float = records.OLDEST_SECONDS,
        record_bytes: int = 16 * 1024**2,
        monotonic: Callable[[], float] = time.monotonic,
        inside: bool = False,
    ) -> None:
        self._monotonic = monotonic
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
        self.measurements = Measurements(measurement_age_seconds)
        plugins = {name: registry.PLUGINS[name].create(configuration.args[name], self.measurements) for name in running}
        self.measured = [plugin for plugin in plugins.values() if isinstance(plugin, MeasuredPlugin)]
        """Plugins that read the load watcher's measurements."""
        responses = ResponseRows()
        self.resources = self.estimator_args.resources
        self.node_columns = recorder.RecordedColumns()
        self._expiration_seconds = float(load_aware_args.node_metric_expiration_seconds or math.inf)
        self._load_aware = next((plugin for plugin in plugins.values() if isinstance(plugin, LoadAware)), None)
        self.records = DecisionRecords(self.node_columns, dict(sorted(plugins.items())), record_bytes)
        # Names before plugins: a plugin that fails on a node must not leave the row of its name empty.
        self._node_table = NodeTable()
        self.vectors = NodeColumns([self.node_columns, responses, self._node_table, *plugins.values()])
        self.cluster = Cluster(
            self.estimator_args,
            self.vectors,
            system_in_prod=load_aware_args.prod_usage_include_sys,
            assumed_ttl_seconds=assumed_ttl_seconds,
            monotonic=monotonic,
        )
        self.cycle = _cycle(configuration, plugins, self.vectors)
        self.vectors.mid_quotas.default = mid_guard_args.quota()
        self.waits = LoadWaits(load_aware_args.soft_after_seconds)
        self.refused = self._refused_pods(_INSIDE if inside else {})
        self.reservations = Reservations(self.cluster)
        self.waiting = WaitingPods(self._waiting_pod_changed, self._waiting_pod_gone)
        self.extender = Extender(
            self.cluster,
            self.cycle,
            responses,
            self.estimator_args,
            self.records,
            refused=self.refused,
            reservations=self.reservations,
            waits=self.waits,
            short_list=short_list,
        )

    def _refused_pods(self, more: Mapping[str, Any]) -> RefusedPods:
        return RefusedPods(self.cycle, self.vectors, len(self.resources), self.waits, **more)

    @functools.cached_property
    def answers(self) -> Answers:
        """Return the answers for the plugin inside kube-scheduler."""
        return Answers(
            self.cluster,
            self.cycle,
            self._node_table,
            self.estimator_args,
            self.records,
            refused=self.refused,
            waits=self.waits,
            rejections=self.extender.rejections,
            outcomes=self.extender.outcomes,
        )

    def _waiting_pod_changed(self, pod: WaitingPod, has_new_outcome: bool) -> None:
        if waiting_pods.is_leaving(pod):
            self.refused.forget(pod.metadata.uid)
        self.reservations.pod_changed(pod, time.time(), time.monotonic(), has_new_outcome=has_new_outcome)
        if not has_new_outcome:
            return
        self.refused.status_changed(pod.metadata.uid, waiting_pods.refusal(pod))
        if waiting_pods.is_unscheduled(pod) and not pod.status.nominated_node_name:
            self.vectors.mid_quotas.attempt_ended(pod.metadata.uid, self._monotonic())

    def _waiting_pod_gone(self, uid: str) -> None:
        """Drop a pod that was bound or deleted; one that was bound counts until the watch of bound pods shows it."""
        self.refused.forget(uid)
        self.reservations.confirmed(uid)
        self.vectors.mid_quotas.end(uid)
        self.waits.end(uid)
        self.extender.drop_pod(uid)

    def check_blindness(self, silent_seconds: float | None, now: float) -> str:
        """Decide whether expired nodes pass, and return the cause; `silent_seconds` is of the NodeMetrics' watch."""
        rows = np.fromiter(self.vectors.rows.values(), dtype=np.intp, count=len(self.vectors.rows))
        updated_at = np.full(len(self.vectors.changed_at), np.nan)
        updated_at[rows] = self.node_columns.updated_at[rows]  # NaN without a report, which never expires
        state = self.cluster.pools.blindness(
            silent_seconds, ~np.isnan(updated_at), updated_at + self._expiration_seconds <= now
        )
        self.vectors.blindness, self.vectors.is_blind = state
        return self.vectors.blindness

    def collectors(self) -> Sequence[Collector]:
        """Return the Prometheus collectors of these parts."""
        reasons = list(zip(self.cycle.rejecting_plugins, self.cycle.reasons, strict=True))
        return (
            DecisionCollector(reasons, self.extender.rejections, self.extender.outcomes, self.records),
            QueueingCollector(self.refused, self.reservations, self.waits, self.extender.preemption_candidates),
            MidQuotaCollector(self.vectors.mid_quotas),
            NodeCollector(self.node_columns, self.vectors, self._load_aware, time.time),
        )


def _cycle(configuration: PluginConfiguration, plugins: Mapping[str, Plugin], vectors: NodeColumns) -> SchedulingCycle:
    """Return the cycle. Raises TypeError if a plugin lacks its extension point: left out, it allows all."""
    filters: list[Filter] = []
    scorers: list[WeightedScorer] = []
    for name in configuration.filters:
        if not isinstance(plugin := plugins[name], Filter):
            raise TypeError(f"plugin {name} is no Filter")
        filters.append(plugin)
    for name, weight in configuration.score_weights.items():
        if not isinstance(plugin := plugins[name], Scorer):
            raise TypeError(f"plugin {name} is no Scorer")
        scorers.append(WeightedScorer(plugin, weight))
    return SchedulingCycle(filters, scorers, vectors)

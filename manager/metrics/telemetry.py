"""Prometheus metrics of the manager. All of them are defined here, and their labels are bounded.

The label `node` is bounded by the number of nodes; the series of a node are removed with it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import math
import time
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.registry import Collector

from api_types import names
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import Terms
from apiserver_client import errors
from component_base import build_info
from component_base.gauge_rows import GaugeRows, Row
from manager.metrics.collectors import EvictionMetrics, FleetEvaluationCollector

_WRITE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_AGE_BUCKETS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
KINDS = (
    "node_status",
    "node_metric",
    "node_slo",
    "workload_history",
    "last_good_config",
    "config_status",
    "node_eviction",
    "eviction",
)
TRIGGERS = ("MidCPUShort", "MidMemoryShort", "NodeMemoryHigh", "Drain", "NodeLeaving", "MidOnlyNode")
"""Causes of evictions, as in `manager.mid_resource.eviction.shortage`."""
STATEMENT_RESULTS = ("merged", "counted_before", "unknown_controller", "too_many", "impossible")
"""As in `manager.node_metric.workload_history.workloads`."""
WATCHED = ("nodes", "nodemetrics", "configmaps")


TERMS: Final = {term.label: term.name for term in mid_resource.TERMS if term.label}
"""Value of the label `term` -> the term. What `allocated` has beyond `floor` was refused to the floor."""


class _Mid(NamedTuple):
    target: int | None
    terms: tuple[int | None, ...]
    """In the order of `TERMS`; empty without a calculation."""


class MidCollector(Collector):
    """Collector of the targets and terms of all nodes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._nodes: dict[str, Mapping[str, _Mid]] = {}
        registry.register(self)

    def show(self, node: str, values: Mapping[str, int | None], lines: Mapping[str, Terms]) -> None:
        """Record the target of a node and its terms."""
        self._nodes[node] = {
            mid: _Mid(
                values.get(mid), tuple(getattr(lines[mid], field) for field in TERMS.values()) if mid in lines else ()
            )
            for mid in names.MID_RESOURCES
        }

    def forget(self, node: str) -> None:
        """Drop the series of a node."""
        self._nodes.pop(node, None)

    def collect(self) -> Iterable[GaugeRows]:
        """Make the series of all nodes."""
        nodes = list(self._nodes.items())
        for mid, name, unit, scale in ((names.MID_CPU, "cpu", "cores", 1000), (names.MID_MEMORY, "memory", "bytes", 1)):
            yield GaugeRows(
                f"koord_manager_node_mid_{name}_target_{unit}",
                f"mid-{name} that the newest decision wants on a node; in shadow it is not published.",
                ["node"],
                functools.partial(_targets, nodes, mid, scale),
            )
            yield GaugeRows(
                f"koord_manager_node_mid_{name}_term_{unit}",
                f"Terms of the mid-{name} target of a node.",
                ["node", "term"],
                functools.partial(_terms, nodes, mid, scale),
            )


def _targets(nodes: Sequence[tuple[str, Mapping[str, _Mid]]], mid: str, scale: int) -> Iterator[Row]:
    for node, shown in nodes:
        value = shown[mid].target
        if value is not None:
            yield (node,), value / scale


def _terms(nodes: Sequence[tuple[str, Mapping[str, _Mid]]], mid: str, scale: int) -> Iterator[Row]:
    for node, shown in nodes:
        for term, amount in zip(TERMS, shown[mid].terms, strict=False):
            if amount is not None:
                yield (node, term), amount / scale


class NodeGauge(Collector):
    """Gauge with the label `node`: a number for each node, and a series only while the page is made.

    A series of prometheus_client takes 0.7 KiB, which is 3.5 MiB for each metric of 5,000 nodes.
    """

    def __init__(self, name: str, documentation: str, *, registry: CollectorRegistry) -> None:
        self._name = name
        self._documentation = documentation
        self._values: dict[str, float] = {}
        registry.register(self)

    def set(self, node: str, value: float | None) -> None:
        """Set the value of a node; None removes it."""
        if value is None:
            self._values.pop(node, None)
        else:
            self._values[node] = value

    def collect(self) -> Iterator[GaugeRows]:
        """Make the series of all nodes."""
        values = list(self._values.items())
        yield GaugeRows(self._name, self._documentation, ["node"], lambda: (((node,), value) for node, value in values))


class Telemetry:
    """Metrics of the manager. `reasons` and `states` are all values that those labels may have."""

    def __init__(self, registry: CollectorRegistry, *, reasons: Iterable[str], states: Iterable[str]) -> None:
        self.registry = registry
        build_info.register(registry, "koord_manager")
        gauge, counter = functools.partial(Gauge, registry=registry), functools.partial(Counter, registry=registry)
        by_node = functools.partial(NodeGauge, registry=registry)
        self.leader = gauge("koord_manager_leader", "1 while this process holds the Lease.")
        self._add_config_metrics(gauge)
        self.misconfigured_nodes = gauge(
            "koord_manager_misconfigured_nodes", "Nodes with an invalid annotation or label."
        )
        self.writes = counter(
            "koord_manager_writes", "Writes to the apiserver, by kind and outcome.", ["kind", "outcome"]
        )
        self.reverts = counter(
            "koord_manager_node_status_reverts", "Times that another client had changed what was written to a node."
        )
        self._write_seconds = Histogram(
            "koord_manager_write_duration_seconds",
            "Duration of a write.",
            ["kind"],
            registry=registry,
            buckets=_WRITE_BUCKETS,
        )
        self.sample_age = Histogram(
            "koord_manager_sample_age_seconds", "Age of the sample that Mid resources were calculated from.",
            registry=registry, buckets=_AGE_BUCKETS,
        )  # fmt: skip
        self._mid_cpu = by_node("koord_manager_node_mid_cpu_cores", "mid-cpu published on a node, in cores.")
        self._mid_memory = by_node("koord_manager_node_mid_memory_bytes", "mid-memory published on a node.")
        self.mid, self.evaluation = MidCollector(registry), FleetEvaluationCollector(registry)
        self._nodes = gauge("koord_manager_nodes", "Nodes by the reason of their Mid resources.", ["reason"])
        self._sample_time = by_node(
            "koord_manager_node_sample_timestamp_seconds", "Time of the newest usable sample of a node."
        )
        self._wrong_clock = by_node(
            "koord_manager_node_clock_wrong", "1 for a node whose clock differs from the apiserver's by over a minute."
        )
        self.clock_ahead = gauge(
            "koord_manager_clock_ahead_seconds", "Difference of the leader's own clock from the apiserver's."
        )
        self.dropped_fields = gauge(
            "koord_manager_node_metric_dropped_fields", "Fields of this project that the NodeMetric CRD drops."
        )
        self._add_history_metrics(gauge, counter)
        self._states = tuple(states)
        self._reason_of_node: dict[str, str] = {}
        self._tally: Tally[str] = Tally()
        self._last_events: dict[str, float] = {}
        self._add_watch_metrics(gauge, counter)
        self.eviction = EvictionMetrics(registry, TRIGGERS)
        self._start_at_zero(reasons)

    def _add_config_metrics(self, gauge: functools.partial[Gauge]) -> None:
        self._config_generation = gauge(
            "koord_manager_config_generation", "Configurations put in force since the start."
        )
        self._config_time = gauge(
            "koord_manager_config_timestamp_seconds",
            "Unix time since which the configuration is in force; NaN before the first.",
        )
        self._report_interval = gauge(
            "koord_manager_report_interval_seconds",
            "Longest interval of reports that the configuration in force requests; NaN before the first.",
        )
        for unknown in (self._config_time, self._report_interval):
            unknown.set(math.nan)
        self._config_state = gauge("koord_manager_config_state", "1 for the state the ConfigMap is in.", ["state"])
        self.config_problems = gauge(
            "koord_manager_config_problems", "Problems in the newest document, advice included."
        )

    def _add_history_metrics(self, gauge: functools.partial[Gauge], counter: functools.partial[Counter]) -> None:
        self.workload_entries = gauge("koord_manager_workload_history_entries", "Workloads whose usage is known.")
        self.workload_owners = gauge("koord_manager_workload_owners", "Controllers of pods that are known.")
        self.score_priors = gauge("koord_manager_score_priors", "Pools of nodes with a prior for their young nodes.")
        self._statements = counter(
            "koord_manager_workload_statements",
            "Statements of nodes about a workload, by outcome.", ["outcome"],
        )  # fmt: skip

    def count_statement(self, result: str) -> None:
        """Count the statement of a node about one workload."""
        self._statements.labels(result).inc()

    def _add_watch_metrics(self, gauge: functools.partial[Gauge], counter: functools.partial[Counter]) -> None:
        self.events_lost = counter("koord_manager_kubernetes_events_lost", "Events that could not be posted.")
        self._events_seen = counter("koord_manager_watch_events", "Events received by a watch.", ["watch"])
        self.queue_depth = gauge(
            "koord_manager_queue_depth", "Nodes waiting for a worker, withdrawals in the urgent lane.", ["lane"]
        )
        self._watch_age = gauge(
            "koord_manager_watch_age_seconds", "Time since the last event of a watch, without bookmarks.", ["watch"]
        )

    def _start_at_zero(self, reasons: Iterable[str]) -> None:
        """Create every series: a counter that appears with its first increment hides that increment from rate()."""
        for reason in reasons:
            self._nodes.labels(reason).set(0)
        for state in self._states:
            self._config_state.labels(state).set(0)
        for kind in KINDS:
            for result in ("ok", "error"):
                self.writes.labels(kind, result)
            self._write_seconds.labels(kind)
        for resource in WATCHED:
            self._events_seen.labels(resource)
        for result in STATEMENT_RESULTS:
            self._statements.labels(result)

    def show_config_in_force(self, at: dt.datetime, report_interval_seconds: int) -> None:
        """Record that another configuration is put in force, and the longest interval of reports in it."""
        self._report_interval.set(report_interval_seconds)
        self._config_generation.inc()
        self._config_time.set(at.timestamp())

    def set_config_state(self, state: str) -> None:
        """Set the state of the ConfigMap."""
        for name in self._states:
            self._config_state.labels(name).set(int(name == state))

    def watched(self, resource: str) -> None:
        """Count an event of a watch."""
        self._events_seen.labels(resource).inc()
        self._last_events[resource] = time.monotonic()

    def export_watch_ages(self) -> None:
        """Export the time since the last event of each watch, or since now where there was none."""
        self._last_events = dict.fromkeys(WATCHED, time.monotonic())
        for resource in WATCHED:
            age = functools.partial(lambda name: time.monotonic() - self._last_events[name], resource)
            self._watch_age.labels(resource).set_function(age)

    def show_sample(self, node: str, taken: dt.datetime, now: dt.datetime) -> None:
        """Record the sample that Mid resources of a node are calculated from."""
        self._sample_time.set(node, taken.timestamp())
        self.sample_age.observe(max((now - taken).total_seconds(), 0.0))

    @contextlib.contextmanager
    def write(self, kind: str) -> Iterator[None]:
        """Time and count a write. An error passes through."""
        start = time.perf_counter()
        try:
            yield
        except errors.ApiServerError:
            self.writes.labels(kind, "error").inc()
            raise
        self.writes.labels(kind, "ok").inc()
        self._write_seconds.labels(kind).observe(time.perf_counter() - start)

    def show_node(
        self, node: str, reason: str, published: Mapping[str, int], *, is_clock_wrong: bool | None = None
    ) -> None:
        """Record the values that a node has, and the reason; its clock too, where that is known."""
        if is_clock_wrong is not None:
            self._wrong_clock.set(node, 1 if is_clock_wrong else None)  # a node with a right one has no series
        before = self._reason_of_node.get(node)
        if before != reason:
            if before is not None:
                self._count(before, -1)
            self._reason_of_node[node] = reason
            self._count(reason, +1)
        for gauge, mid, scale in ((self._mid_cpu, names.MID_CPU, 1000), (self._mid_memory, names.MID_MEMORY, 1)):
            value = published.get(mid)
            gauge.set(node, None if value is None else value / scale)

    def forget_node(self, node: str) -> None:
        """Drop the series of a node that is gone."""
        reason = self._reason_of_node.pop(node, None)
        if reason is not None:
            self._count(reason, -1)
        self.mid.forget(node)
        for gauge in (self._mid_cpu, self._mid_memory, self._sample_time, self._wrong_clock):
            gauge.set(node, None)

    def _count(self, reason: str, change: int) -> None:
        self._tally[reason] += change
        self._nodes.labels(reason).set(self._tally[reason])

"""The agent's /metrics. Values are read when a scrape arrives, so a tick does no work for them."""

from __future__ import annotations

import bisect
import collections
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from api_types.kubernetes.priority_and_qos import PriorityClass
from apiserver_client.watching import WatchState
from component_base.metric_families import counter, gauge
from koordlet.cluster.pods import ClusterState
from koordlet.influxdb_exporter.exporter import InfluxDbExporter
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.report.builder import ReportBuilder
from koordlet.report.sending import Outcome
from koordlet.samples import NODE, SYSTEM, Resource, SeriesKey, SeriesKind

_KINDS = {
    "node": NODE,
    "system": SYSTEM,
    "prod": SeriesKey(SeriesKind.CLASS, PriorityClass.PROD),
    "mid": SeriesKey(SeriesKind.CLASS, PriorityClass.MID),
    "batch": SeriesKey(SeriesKind.CLASS, PriorityClass.BATCH),
    "free": SeriesKey(SeriesKind.CLASS, PriorityClass.FREE),
}


_TICK_BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Durations:
    """Number of durations below each bound. An addition costs a tenth of one to a histogram of the library."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_TICK_BOUNDS_SECONDS) + 1)
        self._total_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect.bisect_left(_TICK_BOUNDS_SECONDS, seconds)] += 1
        self._total_seconds += seconds

    def metric(self, name: str, documentation: str) -> Metric:
        """Return the histogram in Prometheus' form: each bucket includes the ones before it."""
        bounds = (*map(str, _TICK_BOUNDS_SECONDS), "+Inf")
        buckets = list(zip(bounds, itertools.accumulate(self._counts), strict=True))
        return HistogramMetricFamily(name, documentation, buckets, self._total_seconds)


@dataclass(slots=True)
class Counts:
    """Counts of events since the agent started."""

    ticks: int = 0
    tick_duration: Durations = field(default_factory=Durations)
    tick_lateness: Durations = field(default_factory=Durations)
    trainings: int = 0
    unusable_values: int = 0
    reports: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    early_reports: int = 0
    last_report_seconds: float | None = None
    """Unix time of the last written report."""


@dataclass(eq=False)
class AgentCollector(Collector):
    """Reads the agent for a scrape."""

    reports: ReportBuilder
    counts: Counts
    watches: Mapping[str, WatchState]
    checkpointer: Checkpointer
    cluster: ClusterState

    def __post_init__(self) -> None:
        self._observer = self.reports.observer

    def collect(self) -> Iterable[Metric]:
        """Return all metrics of the agent itself."""
        yield self.counts.tick_duration.metric(
            "koordlet_tick_duration_seconds", "Wall time of one tick: collect, aggregate, cache."
        )
        yield self.counts.tick_lateness.metric(
            "koordlet_tick_lateness_seconds", "Delay of a tick after its second; high for a starved or blocked agent."
        )
        yield from self._usage()
        yield from self._sources()
        yield from self._measurements()
        yield from self._prediction()
        yield from self._outcomes()
        yield from self._watches()

    def _usage(self) -> Iterator[Metric]:
        newest = self._observer.newest
        usage = {kind: used for kind, key in _KINDS.items() if (used := newest.get(key)) is not None}
        cpu = {kind: used.cpu_cores for kind, used in usage.items()}
        yield gauge("koordlet_usage_cpu_cores", "Newest CPU usage, by kind.", ["kind"], cpu)
        text = "Newest memory usage, by kind; metricMemoryCollectPolicy selects whether page cache counts."
        memory = {kind: used.memory_bytes for kind, used in usage.items()}
        yield gauge("koordlet_usage_memory_bytes", text, ["kind"], memory)
        if self._observer.newest_at_seconds is not None:
            yield GaugeMetricFamily(
                "koordlet_sample_timestamp_seconds", "Unix time of the newest sample.", self._observer.newest_at_seconds
            )
        yield GaugeMetricFamily("koordlet_tracked_series", "Series in memory.", self._observer.cache.series_count)
        yield CounterMetricFamily("koordlet_ticks", "Ticks done.", self.counts.ticks)
        yield CounterMetricFamily(
            "koordlet_refused_samples", "Samples refused: too many series.", self._observer.cache.refused_samples
        )

    def _sources(self) -> Iterator[Metric]:
        statistics = self._observer.collector.statistics
        sources = dict(sorted(statistics.sources.items()))
        for family, name, text, attribute in (
            (counter, "koordlet_source_reads", "Reads of a source.", "reads"),
            (counter, "koordlet_source_failures", "Reads of a source that gave no data.", "failures"),
            (counter, "koordlet_source_seconds", "Wall time spent reading a source.", "total_seconds"),
            (gauge, "koordlet_source_supported", "Whether the machine has the files of a source.", "supported"),
        ):
            values = {source: float(getattr(read, attribute)) for source, read in sources.items()}
            yield family(name, text, ["source"], values)
        yield GaugeMetricFamily("koordlet_tracked_cgroups", "Groups of pods that are measured.", statistics.groups)
        yield GaugeMetricFamily(
            "koordlet_pods_in_system",
            "Pods that cannot be measured: their usage counts as system usage.",
            statistics.pods_in_system,
        )
        yield GaugeMetricFamily(
            "koordlet_orphan_pod_groups",
            "Groups without a memory group of pods that are not bound to the node; they are left out.",
            statistics.orphan_groups,
        )
        yield GaugeMetricFamily("koordlet_open_files", "Cgroup files that stay open.", statistics.open_files)

    def _measurements(self) -> Iterator[Metric]:
        pods = self._observer.pods_by_uid
        for collector in self._observer.collector.collectors:
            for metric in collector.metrics:
                labels = ("namespace", "pod", *metric.labels) if metric.is_of_pods else metric.labels
                family = (CounterMetricFamily if metric.is_counter else GaugeMetricFamily)(
                    metric.name, metric.documentation, labels=labels
                )
                for measured in collector.measurements(metric):
                    pod = pods.get(measured.pod_uid) if metric.is_of_pods else None
                    if pod is not None:
                        family.add_metric([pod.namespace, pod.name, *measured.labels], measured.value)
                    elif not metric.is_of_pods:
                        family.add_metric(measured.labels, measured.value)
                yield family

    def _prediction(self) -> Iterator[Metric]:
        yield CounterMetricFamily("koordlet_trainings", "Completed trainings.", self.counts.trainings)
        yield CounterMetricFamily(
            "koordlet_unusable_values",
            "Values excluded from training: NaN, infinite, negative.",
            self.counts.unusable_values,
        )
        yield GaugeMetricFamily(
            "koordlet_refused_identities",
            "Pods whose claim to the UID of another pod is refused.",
            len(self.cluster.pods.refused),
        )
        training = self._observer.newest_training
        yield GaugeMetricFamily(
            "koordlet_refused_pods",
            "Pods without a model, because too many are tracked.",
            training.refused_pods if training else 0,
        )
        yield CounterMetricFamily(
            "koordlet_expired_pods", "Models discarded because their pods had gone.", self._observer.expired_pods
        )
        writes = {"written": self.checkpointer.writes, "failed": self.checkpointer.failures}
        yield counter("koordlet_checkpoint_writes", "Checkpoints written.", ["outcome"], writes)
        if self.checkpointer.written_seconds is not None:
            yield GaugeMetricFamily(
                "koordlet_checkpoint_timestamp_seconds",
                "Unix time of the newest usable checkpoint.",
                self.checkpointer.written_seconds,
            )
        text = "Checks of whether a report is due that gave no prediction, by reason."
        yield counter("koordlet_reports_without_prediction", text, ["reason"], self.reports.without_prediction)
        prediction = self.reports.prediction
        for resource, name, text in (
            (Resource.CPU, "koordlet_prod_peak_cpu_cores", "Predicted CPU peak of Prod."),
            (Resource.MEMORY, "koordlet_prod_peak_memory_bytes", "Predicted memory peak of Prod."),
        ):
            peaks = {prediction.parameters.predictor: prediction.prod[resource].peak} if prediction else {}
            yield gauge(name, text, ["predictor"], peaks)
        pods = {}
        if prediction:
            pods = {
                "warm": prediction.warm_pods, "borrowed": prediction.borrowed_pods, "cold": prediction.cold_pods
            }  # fmt: skip
        text = "Prod pods by their recorded history: warm, cold, or borrowed from their workload."
        yield gauge("koordlet_prod_pods", text, ["history"], pods)

    def _outcomes(self) -> Iterator[Metric]:
        yield counter("koordlet_reports", "NodeMetric reports by outcome.", ["outcome"], self.counts.reports)
        yield CounterMetricFamily(
            "koordlet_early_reports", "Reports sent early: the prediction moved.", self.counts.early_reports
        )
        if self.counts.last_report_seconds is not None:
            yield GaugeMetricFamily(
                "koordlet_last_report_timestamp_seconds",
                "Unix time of the last written report.",
                self.counts.last_report_seconds,
            )

    def _watches(self) -> Iterator[Metric]:
        for family, name, attribute, text in (
            (gauge, "koordlet_watch_synced", "synced", "Whether a watch has a complete list."),
            (counter, "koordlet_watch_events", "events", "Events received by a watch."),
            (counter, "koordlet_watch_reconnects", "reconnects", "Reconnects of a watch."),
        ):
            values = {watch: float(getattr(state, attribute)) for watch, state in self.watches.items()}
            yield family(name, text, ["watch"], values)
        unreadable = collections.Counter(watch for watch, _name in list(self.cluster.unreadable))
        outdated = {watch: unreadable[watch] for watch in self.watches}
        text = "Objects whose newest state cannot be decoded."
        yield gauge("koordlet_unreadable_objects", text, ["watch"], outdated)
        yield GaugeMetricFamily(
            "koordlet_spec_refused",
            "Whether the newest NodeMetric spec is refused, so that the previous one stays in force.",
            float(self.cluster.spec_problem is not None),
        )


class ExporterCollector(Collector):
    """Reads the InfluxDB exporter for a scrape; registered only where there is one."""

    def __init__(self, exporter: InfluxDbExporter) -> None:
        self._exporter = exporter

    def collect(self) -> Iterable[Metric]:
        """Return queued, written and dropped points and failed writes."""
        queue, writer = self._exporter.queue, self._exporter.writer
        yield GaugeMetricFamily("koordlet_influxdb_queued_points", "Points queued for InfluxDB.", queue.depth)
        yield CounterMetricFamily("koordlet_influxdb_written_points", "Points written to InfluxDB.", queue.written)
        yield counter("koordlet_influxdb_dropped_points", "Points dropped, by reason.", ["reason"], queue.dropped)
        text = "Failed requests to InfluxDB, by kind of failure."
        yield counter("koordlet_influxdb_write_failures", text, ["kind"], writer.failures)
        if writer.last_success_seconds is not None:
            yield GaugeMetricFamily(
                "koordlet_influxdb_last_success_timestamp_seconds",
                "Unix time of the last successful request to InfluxDB.",
                writer.last_success_seconds,
            )

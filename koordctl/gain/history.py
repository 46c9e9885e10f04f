"""What a Prometheus that scrapes the suite has recorded about Mid resources.

Raises CannotRead and BadQuery of koordctl.backtest.prometheus.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from component_base import prometheus
from koordctl.backtest.prometheus import Prometheus, StepSeries, TimeRange
from koordctl.gain import gains
from koordctl.gain.gains import DayGain, Gain, GainSums, NamespaceMidUse, PeakExceeded, PredictorGain
from koordlet.prediction.histogram_bank import FloatArray

_STEPS: Final = 2_000
_LEAST_STEP_SECONDS: Final = 60
_DAY: Final = 86_400
_REASONS: Final = "SampleTooOld|NeverReported|NodeMetricMissing|CalculatedWithoutPrediction|NoPrediction|ReportRefused"
_GAP: Final = 0.01
"""Share of the time without samples that is stated."""
MANAGER, AGENTS = "the manager", "agents"
_ONCE: Final = "max without (prometheus, prometheus_replica, replica) ({})"
"""One of the equal series of several Prometheus replicas."""


def time_range(end_seconds: float, since_seconds: float) -> TimeRange:
    """Return the steps of the last seconds: fewer than 4000, of whole minutes."""
    step = max(_LEAST_STEP_SECONDS, int(since_seconds / _STEPS) // 60 * 60)
    last = int(end_seconds) // step * step
    count = max(int(since_seconds) // step, 1)
    return TimeRange(last - (count - 1) * step, step, count)


def read(server: Prometheus, period: TimeRange, source: str, selector: str = "") -> Gain:
    """Read and add up everything; `selector` has label matchers that all series have to match."""
    window = period.step_seconds * period.steps
    queries = _PeriodQueries(server, period, selector)
    offered, allocatable = queries.offered(), queries.allocatable()
    namespaces = queries.namespaces(window)
    withdrawn = queries.withdrawn()
    return Gain(
        source,
        float(window),
        queries.seconds_with_samples(MANAGER),
        queries.seconds_with_samples(AGENTS),
        offered,
        allocatable,
        namespaces,
        queries.forecasts(),
        queries.exceeded(window),
        {reason: seconds for reason, seconds in withdrawn.items() if seconds > 0},
        queries.days(),
        queries.missing,
    )


class _PeriodQueries:
    """Queries over one time range; `missing` grows by a sentence for each metric without a series."""

    def __init__(self, server: Prometheus, period: TimeRange, selector: str) -> None:
        self._server = server
        self._period = period
        self._matchers = selector.strip("{} ")
        self.missing: list[str] = []
        self._daily: dict[str, FloatArray] = {}
        self._has_samples = {part: np.zeros(period.steps, dtype=bool) for part in (MANAGER, AGENTS)}

    def _named(self, metric: str, *matchers: str) -> str:
        return prometheus.selector(metric, *matchers, self._matchers)

    def offered(self) -> GainSums:
        """Return the Mid resources of all nodes over the time."""
        metrics = ("koord_manager_node_mid_cpu_cores", "koord_manager_node_mid_memory_bytes")
        cpu, memory = (self._sampled(MANAGER, f"sum (max by (node) ({self._named(metric)}))") for metric in metrics)
        if cpu:
            self._daily["offered"] = cpu[0].values
        return self._totals(metrics, (cpu, memory))

    def allocatable(self) -> GainSums:
        """Return the allocatable of all nodes over the time."""
        metrics = ("koordlet_allocatable_cpu_cores", "koordlet_allocatable_memory_bytes")
        series = [self._sampled(AGENTS, f"sum ({_ONCE.format(self._named(metric))})") for metric in metrics]
        return self._totals(metrics, series)

    def _totals(self, metrics: Sequence[str], by_metric: Iterable[Sequence[StepSeries]]) -> GainSums:
        """Return the time integrals of CPU and memory, of one series each; None without one."""
        totals = []
        for metric, series in zip(metrics, by_metric, strict=True):
            if not series:
                self.missing.append(f"{metric}: no series in this time")
            totals.append(self._integral(series[0].values) if series else None)
        return GainSums(*totals)

    def withdrawn(self) -> dict[str, float]:
        """Return the node-seconds of each reason for Mid resources that were withdrawn or kept."""
        query = f"max by (reason) ({self._named('koord_manager_nodes', f'reason=~{json.dumps(_REASONS)}')})"
        return {series.labels.get("reason", ""): self._integral(series.values) for series in self._series(query)}

    def _series(self, query: str) -> list[StepSeries]:
        return self._server.range(query, self._period)

    def _integral(self, values: FloatArray) -> float:
        return float(np.nansum(values)) * self._period.step_seconds

    def _sampled(self, part: str, query: str) -> list[StepSeries]:
        """Return the series of a query, and note at which steps there are samples of the manager or of agents."""
        rows = self._series(query)
        for series in rows:
            self._has_samples[part] |= ~np.isnan(series.values)
        return rows

    def seconds_with_samples(self, part: str) -> float:
        """Return the seconds with samples. States a gap of a hundredth; a part without any series is stated already."""
        steps = int(np.count_nonzero(self._has_samples[part]))
        if 0 < steps < (1 - _GAP) * self._period.steps:
            hours, all_hours = (count * self._period.step_seconds / 3600 for count in (steps, self._period.steps))
            self.missing.append(f"{all_hours - hours:.3g} of {all_hours:.3g} hours, without samples of {part}; means are over the others")  # fmt: skip  # noqa: E501
        return float(steps * self._period.step_seconds)

    def namespaces(self, window: int) -> Mapping[str, NamespaceMidUse]:
        """Return what each namespace got."""
        parts: dict[str, dict[str, float]] = {}
        for what in ("requested_cpu_cores", "requested_memory_bytes", "used_cpu_cores", "used_memory_bytes", "suppressed_cpu_cores"):  # fmt: skip  # noqa: E501
            metric = f"koordlet_namespace_mid_{what}"
            series = self._sampled(AGENTS, f"sum by (namespace) ({_ONCE.format(self._named(metric))})")
            if not series:
                self.missing.append(f"{metric}: no series in this time")
            parts[what] = {row.labels.get("namespace", ""): self._integral(row.values) for row in series}
            if what in ("requested_cpu_cores", "used_cpu_cores") and series:
                self._daily[what] = np.nansum([row.values for row in series], axis=0)
        evicted = self._increase("koord_manager_namespace_mid_evicted_pods_total", "namespace", window)
        names = set().union(*parts.values()) | {name for name, count in evicted.items() if count > 0}
        return {
            name: NamespaceMidUse(
                GainSums(parts["requested_cpu_cores"].get(name), parts["requested_memory_bytes"].get(name)),
                GainSums(parts["used_cpu_cores"].get(name), parts["used_memory_bytes"].get(name)),
                parts["suppressed_cpu_cores"].get(name),
                round(evicted[name]) if name in evicted else None,
            )
            for name in names
        }

    def _increase(self, metric: str, label: str, window: int) -> dict[str, float]:
        query = f"sum by ({label}) ({_ONCE.format(f'increase({self._named(metric)}[{window}s])')})"
        increases = self._server.instant(query, self._period.end)
        if not increases:
            self.missing.append(f"{metric}: no series in this time")
        return {labels.get(label, ""): value for labels, value in increases if not np.isnan(value)}

    def forecasts(self) -> list[PredictorGain]:
        """Return the live evaluation at the end of the time: it has a memory of its own."""
        by = "max by (predictor, resource) ({})"
        exceeded, saved = (
            {
                (labels.get("predictor", ""), labels.get("resource", "")): value
                for labels, value in self._server.instant(
                    by.format(self._named(f"koord_manager_evaluation_{kind}_ratio")), self._period.end
                )
            }
            for kind in ("violations", "savings")
        )
        if not exceeded:
            self.missing.append("koord_manager_evaluation_violations_ratio: no live evaluation at the end of this time")
        return [gains.predictor_gain(*key, ratio, saved.get(key, 0.0)) for key, ratio in sorted(exceeded.items())]

    def exceeded(self, window: int) -> list[PeakExceeded]:
        """Return the share of the time in which Prod was above its predicted peak."""
        rows = []
        for resource in ("cpu", "memory"):
            above, compared = (self._prod_seconds(kind, resource, window) for kind in ("exceeded", "compared"))
            whole = sum(compared.values())
            if not whole:
                continue
            shares = {name: above.get(name, 0.0) / length for name, length in compared.items() if length > 0}
            worst = max(shares, key=lambda name: shares[name])
            rows.append(PeakExceeded(resource, sum(above.values()) / whole, worst, shares[worst]))
        if not rows:
            self.missing.append("koordlet_prod_peak_compared_seconds_total: no series in this time")
        return rows

    def _prod_seconds(self, kind: str, resource: str, window: int) -> dict[str, float]:
        """Return seconds by node, added up over its agents: each new pod of the agent has another address."""
        series = self._named(f"koordlet_prod_peak_{kind}_seconds_total", f'resource="{resource}"')
        query = f"max by (node, instance) (increase({series}[{window}s]))"
        seconds: dict[str, float] = defaultdict(float)
        for labels, value in self._server.instant(query, self._period.end):
            seconds[labels.get("node") or labels.get("instance", "")] += 0.0 if np.isnan(value) else value
        return seconds

    def days(self) -> list[DayGain]:
        """Return the core-hours of each UTC day."""
        times = self._period.start + np.arange(self._period.steps) * self._period.step_seconds
        rows = []
        for day in np.unique(times // _DAY):
            inside = times // _DAY == day
            sums = [
                self._integral(self._daily[what][inside]) / 3600 if what in self._daily else 0.0
                for what in ("offered", "requested_cpu_cores", "used_cpu_cores")
            ]
            rows.append(DayGain(dt.datetime.fromtimestamp(int(day) * _DAY, dt.UTC).date().isoformat(), *sums))
        return rows

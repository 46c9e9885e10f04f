"""Metrics of the decisions, and of the age of their inputs. Labels are bounded in number."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from prometheus_client import metrics_core, registry

from scheduler_plugin.decisions.recorder import DecisionRecords, RecordedColumns
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.queueing.load_waits import LoadWaits
from scheduler_plugin.queueing.refused_pods import RefusedPods
from scheduler_plugin.queueing.reservations import Reservations
from scheduler_plugin.state.mid_quotas import MidQuotas
from scheduler_plugin.state.node_columns import Floats, NodeColumns

_PREFIX: Final = "koord_scheduler_plugin_"

MOST_NAMESPACES: Final = 200
_MID: Final = (("cpu_cores", "CPU", 1000), ("memory_bytes", "memory", 1))
"""End of the name of a metric, resource, and amount of a quota that is 1 in it; in the order of MidQuota."""

AGES_SECONDS: Final = (60, 120, 180, 300, 900, 3600)
"""A report comes once a minute, and is too old after 180 s unless configured otherwise."""
_OLDER, _NONE = "inf", "none"


def report_ages(columns: RecordedColumns, vectors: NodeColumns) -> dict[str, float | None]:
    """Return the time of each node's report, seconds since the epoch, oldest first; None, before all, without one."""
    rows = dict(vectors.rows)
    times = {name: float(columns.updated_at[row]) for name, row in rows.items()}
    ordered = sorted(times, key=lambda name: (not np.isnan(times[name]), times[name], name))
    return {name: None if np.isnan(times[name]) else times[name] for name in ordered}


def counts_by_age(updated_at: Floats, now: float) -> dict[str, int]:
    """Count the reports by age, NaN is none; each counts once, in the smallest fitting bucket."""
    ages = now - updated_at[~np.isnan(updated_at)]
    buckets = np.bincount(np.searchsorted(AGES_SECONDS, ages), minlength=len(AGES_SECONDS) + 1)
    labels = [*map(str, AGES_SECONDS), _OLDER, _NONE]
    return dict(zip(labels, [*buckets.tolist(), len(updated_at) - len(ages)], strict=True))


class DecisionCollector(registry.Collector):
    """Collector of the counts that the extender keeps itself, because they change with every call."""

    def __init__(
        self,
        reasons: Sequence[tuple[str, str]],
        rejections: Sequence[int],
        outcomes: Mapping[str, int],
        records: DecisionRecords,
    ) -> None:
        """Take `reasons` as (plugin, text) by reason code - 1, and `rejections` by reason code; code 0 is "passed"."""
        self._reasons = reasons
        self._rejections = rejections
        self._outcomes = outcomes
        self._records = records

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        rejected = _counter(
            "rejected_nodes", "Nodes rejected by filter calls, by plugin and reason.", "plugin", "reason"
        )
        for (plugin, reason), count in zip(self._reasons, self._rejections[1:], strict=True):
            rejected.add_metric([plugin, reason], count)
        outcomes = _counter(
            "filtered_pods", "Filter calls, by outcome: all, some or none of the named nodes passed.", "outcome"
        )
        for outcome, count in self._outcomes.items():
            outcomes.add_metric([outcome], count)
        choices = _counter(
            "bound_pods",
            "Bind calls, by the extender's score of the node: best, tied, other (kube-scheduler's own scores had more "
            "weight), indifferent (all nodes had the same), only (one node had passed), unknown.",
            "choice",
        )
        for choice, count in self._records.choices.items():
            choices.add_metric([choice.value], count)
        yield from (rejected, outcomes, choices)
        yield metrics_core.GaugeMetricFamily(
            f"{_PREFIX}recorded_decisions", "Decisions that koordctl can explain.", value=len(self._records)
        )
        yield metrics_core.GaugeMetricFamily(
            f"{_PREFIX}recorded_decision_bytes", "Memory of the recorded decisions.", value=self._records.bytes
        )


class QueueingCollector(registry.Collector):
    """Collector of the pods that wait for a node to pass, and of those that count before they are bound."""

    def __init__(
        self,
        refused: RefusedPods,
        reservations: Reservations,
        waits: LoadWaits,
        preemption_candidates: Mapping[str, int],
    ) -> None:
        self._waits = waits
        self._refused = refused
        self._reservations = reservations
        self._preemption_candidates = preemption_candidates

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        retried = _counter(
            "retried_pods",
            "Refused pods that were annotated so that kube-scheduler tries them again, by cause: a refused node passes "
            "(cooled), or a node that kube-scheduler did not name (not-named).",
            "cause",
        )
        for cause, count in self._refused.woken.items():
            retried.add_metric([cause.value], count)
        candidates = _counter(
            "preemption_candidates",
            "Nodes in preempt calls, by outcome: kept, or removed, because filter would reject them then.",
            "outcome",
        )
        for outcome, count in self._preemption_candidates.items():
            candidates.add_metric([outcome], count)
        yield from (retried, candidates)
        for name, text, value in (
            (
                "refused_pods_evicted",
                "Refused pods that were dropped because too many waited; want 0.",
                self._refused.evicted,
            ),
            ("failed_retries", "Refused pods whose annotation could not be written; want 0.", self._refused.failed),
            ("reservations", "Pods that were counted on their node before they were bound.", self._reservations.begun),
            (
                "placements_despite_load",
                "Filter calls that passed a pod that load alone had refused everywhere for softAfterSeconds.",
                self._waits.placed,
            ),
            (
                "moved_reservations",
                "Reservations whose node the claim of a volume corrected.",
                self._reservations.moved,
            ),
        ):
            family = _counter(name, text)
            family.add_metric([], value)
            yield family
        for name, text, value in (
            ("refused_pods", "Pods that wait because no node passed.", len(self._refused)),
            ("pods_refused_for_load", "Prod pods that only load refuses, on every node.", len(self._waits)),
            ("reserved_pods", "Pods that count on a node before they are bound.", len(self._reservations)),
        ):
            yield metrics_core.GaugeMetricFamily(f"{_PREFIX}{name}", text, value=value)


class MidQuotaCollector(registry.Collector):
    """Collector of the Mid resources that namespaces hold, against their quotas."""

    def __init__(self, quotas: MidQuotas) -> None:
        self._quotas = quotas

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples, of the namespaces that hold the most."""
        uses = self._quotas.uses()
        shown = heapq.nlargest(MOST_NAMESPACES, uses, key=lambda name: (uses[name].held, name))
        for place, (name, resource, units) in enumerate(_MID):
            held_family, most = (
                metrics_core.GaugeMetricFamily(f"{_PREFIX}namespace_mid_{what}_{name}", text, labels=("namespace",))
                for what, text in (
                    ("held", f"Mid {resource} of a namespace; of the {MOST_NAMESPACES} that hold the most."),
                    ("quota", f"Mid {resource} that these may hold, where they have a quota."),
                )
            )
            for namespace in shown:
                held_family.add_metric([namespace], uses[namespace].held[place] / units)
                if (may := uses[namespace].quota[place]) is not None:
                    most.add_metric([namespace], may / units)
            yield from (held_family, most)
        for label, text, value in (
            (
                "malformed_mid_quotas",
                "Namespaces whose annotation mid-quota is malformed, so that they get no new Mid pod; want 0.",
                sum(use.is_malformed for use in uses.values()),
            ),
            ("namespaces_without_mid_metrics", "Namespaces beyond those that are shown.", len(uses) - len(shown)),
        ):
            yield metrics_core.GaugeMetricFamily(f"{_PREFIX}{label}", text, value=value)


class NodeCollector(registry.Collector):
    """Collector of the age of each node's newest report, and of the problems of nodes, by plugin.

    The nodes by name are on /debug/nodes/.
    """

    def __init__(
        self,
        columns: RecordedColumns,
        vectors: NodeColumns,
        load_aware: LoadAware | None,
        clock: Callable[[], float],
    ) -> None:
        self._columns = columns
        self._load_aware = load_aware
        self._vectors = vectors
        self._clock = clock

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        family = metrics_core.GaugeMetricFamily(
            f"{_PREFIX}nodes",
            "Nodes by the age of their newest report; each counts once; none: no report, or a report without a time.",
            labels=["report_age_at_most_seconds"],
        )
        rows = np.fromiter(list(self._vectors.rows.values()), dtype=np.intp)
        for age, count in counts_by_age(self._columns.updated_at[rows], self._clock()).items():
            family.add_metric([age], count)
        yield family
        problems = metrics_core.GaugeMetricFamily(
            f"{_PREFIX}node_problems",
            "Nodes by what a plugin ignores or misses there: a malformed threshold annotation (malformed_thresholds), "
            "or a configured statistic that the report lacks, so that the newest usage counts (missing_window).",
            labels=["plugin", "kind"],
        )
        if self._load_aware is not None:
            for kind, count in self._load_aware.problems(rows).items():
                problems.add_metric([LoadAware.name, kind], count)
        yield problems


def _counter(name: str, text: str, *labels: str) -> metrics_core.CounterMetricFamily:
    return metrics_core.CounterMetricFamily(f"{_PREFIX}{name}", text, labels=labels)

"""Metrics of the decisions, and of the age of their inputs. Labels are bounded in number."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from prometheus_client import metrics_core, registry

from component_base.metric_families import counter, gauge
from scheduler_plugin.decisions.recorder import DecisionRecords
from scheduler_plugin.framework.interface import ReasonCodes
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.state.load_waits import LoadWaits
from scheduler_plugin.state.mid_quotas import MidQuotas
from scheduler_plugin.state.node_columns import Floats, NodeColumns

_PREFIX: Final = "koord_scheduler_plugin_"

MOST_NAMESPACES: Final = 200
_MID: Final = (("cpu_cores", "CPU", 1000), ("memory_bytes", "memory", 1))
"""End of the name of a metric, resource, and amount of a quota that is 1 in it; in the order of MidQuota."""

AGES_SECONDS: Final = (60, 120, 180, 300, 900, 3600)
"""A report comes once a minute, and is too old after 180 s unless configured otherwise."""
_OLDER, _NONE = "inf", "none"


def report_ages(vectors: NodeColumns) -> dict[str, float | None]:
    """Return the time of each node's report, seconds since the epoch, oldest first; None, before all, without one."""
    rows = dict(vectors.rows)
    times = {name: float(vectors.updated_at[row]) for name, row in rows.items()}
    ordered = sorted(times, key=lambda name: (not np.isnan(times[name]), times[name], name))
    return {name: None if np.isnan(times[name]) else times[name] for name in ordered}


def counts_by_age(updated_at: Floats, now: float) -> dict[str, int]:
    """Count the reports by age, NaN is none; each counts once, in the smallest fitting bucket."""
    ages = now - updated_at[~np.isnan(updated_at)]
    buckets = np.bincount(np.searchsorted(AGES_SECONDS, ages), minlength=len(AGES_SECONDS) + 1)
    labels = [*map(str, AGES_SECONDS), _OLDER, _NONE]
    return dict(zip(labels, [*buckets.tolist(), len(updated_at) - len(ages)], strict=True))


class DecisionCounts:
    """Counts that change with every decision, since the start."""

    def __init__(self, reasons: int) -> None:
        self.rejections = [0] * (1 + reasons)
        """Nodes by reason code; code 0 is "passed"."""
        self.outcomes = dict.fromkeys(("all_passed", "some_rejected", "none_passed"), 0)
        """Pods."""

    def count(self, codes: ReasonCodes | None) -> None:
        """Count a decision by the reason code of each node; None if all passed."""
        if codes is None:
            self.outcomes["all_passed"] += 1
            return
        self.outcomes["none_passed" if codes.all() else "some_rejected"] += 1
        for code, number in enumerate(np.bincount(codes).tolist()):
            self.rejections[code] += number


@dataclass(frozen=True, eq=False)
class DecisionCollector(registry.Collector):
    """Collector of these counts, of the records, and of the pods that only load refuses."""

    reasons: Sequence[tuple[str, str]]
    """Plugin and text by reason code - 1."""
    counts: DecisionCounts
    records: DecisionRecords
    waits: LoadWaits

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        text = "Rejected nodes, by plugin and reason."
        rejected = zip(self.reasons, self.counts.rejections[1:], strict=True)
        yield counter(f"{_PREFIX}rejected_nodes", text, ["plugin", "reason"], rejected)
        text = "Attempts on pods, by outcome: all, some or none of the nodes passed."
        yield counter(f"{_PREFIX}filtered_pods", text, ["outcome"], self.counts.outcomes)
        yield counter(
            f"{_PREFIX}bound_pods",
            "Bound pods, by the score of the node: best, tied, other (kube-scheduler's own scores had more "
            "weight), indifferent (all nodes had the same), only (one node had passed), unknown.",
            ["choice"],
            self.records.choices,
        )
        yield _gauge("recorded_decisions", "Decisions that koordctl can explain.", len(self.records))
        yield _gauge("recorded_decision_bytes", "Memory of the recorded decisions.", self.records.bytes)
        text = "Attempts that passed a pod that load alone had refused everywhere for softAfterSeconds."
        yield metrics_core.CounterMetricFamily(f"{_PREFIX}placements_despite_load", text, value=self.waits.placed)
        yield _gauge("pods_refused_for_load", "Prod pods that only load refuses, on every node.", len(self.waits))


@dataclass(frozen=True, eq=False)
class MidQuotaCollector(registry.Collector):
    """Collector of the Mid resources that namespaces hold, against their quotas."""

    quotas: MidQuotas

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples, of the namespaces that hold the most."""
        uses = self.quotas.uses()
        shown = heapq.nlargest(MOST_NAMESPACES, uses, key=lambda name: (uses[name].held, name))
        for place, (name, resource, units) in enumerate(_MID):
            held = {namespace: uses[namespace].held[place] / units for namespace in shown}
            text = f"Mid {resource} of a namespace; of the {MOST_NAMESPACES} that hold the most."
            yield gauge(f"{_PREFIX}namespace_mid_held_{name}", text, ["namespace"], held)
            quotas = {namespace: uses[namespace].quota[place] for namespace in shown}
            most = {namespace: amount / units for namespace, amount in quotas.items() if amount is not None}
            text = f"Mid {resource} that these may hold, where they have a quota."
            yield gauge(f"{_PREFIX}namespace_mid_quota_{name}", text, ["namespace"], most)
        yield _gauge(
            "malformed_mid_quotas",
            "Namespaces whose annotation mid-quota is malformed, so that they get no new Mid pod; want 0.",
            sum(bool(use.problem) for use in uses.values()),
        )
        yield _gauge(
            "namespaces_without_mid_metrics", "Namespaces beyond those that are shown.", len(uses) - len(shown)
        )


@dataclass(frozen=True, eq=False)
class NodeCollector(registry.Collector):
    """Collector of the age of each node's newest report, and of the problems of nodes, by plugin.

    The nodes by name are on /debug/nodes/.
    """

    vectors: NodeColumns
    load_aware: LoadAware | None
    clock: Callable[[], float]

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        rows = np.fromiter(list(self.vectors.rows.values()), dtype=np.intp)
        ages = counts_by_age(self.vectors.updated_at[rows], self.clock())
        text = "Nodes by the age of their newest report; each counts once; none: no report, or a report without a time."
        yield gauge(f"{_PREFIX}nodes", text, ["report_age_at_most_seconds"], ages)
        problems = self.load_aware.problems(rows).items() if self.load_aware else ()
        yield gauge(
            f"{_PREFIX}node_problems",
            "Nodes by what a plugin ignores or misses there: a malformed threshold annotation (malformed_thresholds), "
            "or a configured statistic that the report lacks, so that the newest usage counts (missing_window).",
            ["plugin", "kind"],
            [([LoadAware.name, kind], count) for kind, count in problems],
        )


def _gauge(name: str, text: str, value: float) -> metrics_core.GaugeMetricFamily:
    return metrics_core.GaugeMetricFamily(f"{_PREFIX}{name}", text, value=value)

"""Collectors of evictions, and of the evaluation of predictors over all nodes."""

from __future__ import annotations

import enum
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from api_types.node_metric import evaluation_report
from api_types.node_metric.evaluation_report import Packed
from component_base import metric_families

MID_ONLY_STATES: Final = ("waiting", "closed")
MOST_NAMESPACES: Final = 100
"""Namespaces with series of their own: tenants make namespaces."""
OTHER: Final = "_other"
"""Label of the sum over the other namespaces; an underscore is in the name of no namespace."""


class AttemptResult(enum.StrEnum):
    """Result of an attempt."""

    ADVISED = "advised"
    """The mode is `advise`, or the right to evict is missing: nothing was done."""
    EVICTED = "evicted"
    REFUSED = "refused"
    """A PodDisruptionBudget, or admission, does not permit it now."""
    GONE = "gone"
    """The pod had ended, or another one has its name."""
    FORBIDDEN = "forbidden"
    """The right to evict is missing, although the apiserver had stated otherwise."""
    FAILED = "failed"
    """The apiserver gave no answer, or is overloaded."""


class EvictedByNamespace(Collector):
    """Counter of evicted pods by namespace. The namespaces whose pods were seen longest ago share one series."""

    def __init__(self, most: int = MOST_NAMESPACES) -> None:
        self._most = most
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._other = 0

    def add(self, namespace: str, pods: int) -> None:
        """Count pods; 0 starts the series of a namespace, so that `increase` sees its first eviction."""
        self._counts[namespace] = self._counts.pop(namespace, 0) + pods
        if len(self._counts) > self._most:
            self._other += self._counts.popitem(last=False)[1]

    def collect(self) -> Iterable[Metric]:
        """Return the counter."""
        text = "Evicted Mid pods by namespace, from the first time that a pod of it may have to go."
        counts = {**self._counts, OTHER: self._other}
        yield metric_families.counter("koord_manager_namespace_mid_evicted_pods", text, ["namespace"], counts)


class EvictionMetrics:
    """`triggers` are all values that the label may have."""

    def __init__(self, registry: CollectorRegistry, triggers: Iterable[str]) -> None:
        gauge, counter = functools.partial(Gauge, registry=registry), functools.partial(Counter, registry=registry)
        self.attempts = counter(
            "koord_manager_mid_evictions",
            "Mid pods that were to be evicted, by cause and outcome.",
            ["cause", "outcome"],
        )
        self._short = gauge(
            "koord_manager_mid_short_nodes", "Nodes of which Mid pods are to be evicted, by cause.", ["cause"]
        )
        self._closed = gauge(
            "koord_manager_mid_closed_nodes", "Nodes that accept no new Mid pod after an eviction, or that are emptied."
        )
        self._mid_only = gauge(
            "koord_manager_mid_only_nodes",
            "Nodes that only Mid pods keep: closed for new ones and emptied, or waiting for it.",
            ["state"],
        )
        self.protected = counter(
            "koord_manager_mid_protected_pods", "Times that a Mid pod that was to be evicted was protected."
        )
        self.allowed = gauge(
            "koord_manager_mid_eviction_allowed", "1 while the manager may evict pods where it is to have the right."
        )
        self.evicted = EvictedByNamespace()
        registry.register(self.evicted)
        self._triggers = tuple(triggers)
        for trigger in self._triggers:
            for result in AttemptResult:
                self.attempts.labels(trigger, result)

    def export(self, counts: Callable[[], Mapping[str, int]], mid_only: Callable[[], Mapping[str, int]]) -> None:
        """Export the numbers of nodes, read at each scrape.

        `counts` has one for each trigger, and `closed`; `mid_only` has one for each of MID_ONLY_STATES.
        """
        for trigger in self._triggers:
            self._short.labels(trigger).set_function(functools.partial(_count, counts, trigger))
        self._closed.set_function(functools.partial(_count, counts, "closed"))
        for state in MID_ONLY_STATES:
            self._mid_only.labels(state).set_function(functools.partial(_count, mid_only, state))


def _count(counts: Callable[[], Mapping[str, int]], name: str) -> float:
    return counts()[name]


class FleetEvaluationCollector(Collector):
    """Collector of the scores of each predictor; `reports` returns the newest evaluation of each node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reports: Callable[[], Iterable[Packed]] = list
        registry.register(self)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Combine the evaluations of all nodes."""
        combined = evaluation_report.combined(self.reports()).items()
        for name, text, attribute in (
            ("koord_manager_evaluation_nodes", "Nodes that report an evaluation of a predictor.", "nodes"),
            (
                "koord_manager_evaluation_forecasts",
                "Forecasts of a predictor on all nodes; one counts half after 7 days.",
                "forecasts",
            ),
            (
                "koord_manager_evaluation_violations_ratio",
                "Share of the forecasts of all nodes that usage exceeded.",
                "violation_ratio",
            ),
            (
                "koord_manager_evaluation_savings_ratio",
                "Share of the Prod requests above the forecast peaks, over all nodes, weighted by forecasts.",
                "savings_ratio",
            ),
        ):
            series = [(labels, getattr(fleet, attribute)) for labels, fleet in combined]
            yield metric_families.gauge(name, text, ("predictor", "resource"), series)

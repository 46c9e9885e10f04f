"""Metrics of the eviction of Mid pods."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge


class Result(enum.StrEnum):
    """Result of an attempt."""

    ADVISED = "advised"
    """The mode is `advise`, or the right to evict is missing: nothing was done."""
    EVICTED = "evicted"
    REFUSED = "refused"
    """A PodDisruptionBudget does not permit it now."""
    GONE = "gone"
    """The pod had ended, or another one has its name."""
    FORBIDDEN = "forbidden"
    """The right to evict is missing, although the apiserver had stated otherwise."""
    FAILED = "failed"
    """The apiserver gave no answer, or is overloaded."""


class EvictionMetrics:
    """`triggers` are all values that the label may have."""

    def __init__(self, registry: CollectorRegistry, triggers: Iterable[str]) -> None:
        self._attempts = Counter(
            "koord_manager_mid_evictions", "Mid pods that were to be evicted, by cause and result.",
            ["cause", "result"], registry=registry,
        )  # fmt: skip
        self._short = Gauge(
            "koord_manager_mid_short_nodes", "Nodes of which Mid pods are to be evicted, by cause.", ["cause"],
            registry=registry,
        )  # fmt: skip
        self._closed = Gauge(
            "koord_manager_mid_closed_nodes", "Nodes that accept no new Mid pod after an eviction.", registry=registry
        )
        self._protected = Counter(
            "koord_manager_mid_protected_pods", "Times that a Mid pod that was to be evicted was protected.",
            registry=registry,
        )  # fmt: skip
        self.allowed = Gauge(
            "koord_manager_mid_eviction_allowed", "1 while the manager may evict pods where it is to have the right.",
            registry=registry,
        )  # fmt: skip
        self._triggers = tuple(triggers)
        for trigger in self._triggers:
            for result in Result:
                self._attempts.labels(trigger, result)

    def count(self, trigger: str, result: Result) -> None:
        """Count an attempt."""
        self._attempts.labels(trigger, result).inc()

    def count_protected(self, pods: int) -> None:
        """Count pods that were protected from an attempt."""
        self._protected.inc(pods)

    def export(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Export the numbers of nodes, read at each scrape; `counts` has one for each trigger, and `closed`."""
        for trigger in self._triggers:
            self._short.labels(trigger).set_function(functools.partial(_one, counts, trigger))
        self._closed.set_function(functools.partial(_one, counts, "closed"))


def _one(counts: Callable[[], Mapping[str, int]], name: str) -> float:
    return counts()[name]

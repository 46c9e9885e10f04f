"""Metrics of the process. Labels are from fixed sets, and every series exists from the start."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, metrics_core, registry

from apiserver_client import watching
from component_base import build_info
from component_base.metric_families import counter, gauge
from scheduler_plugin.kube_scheduler.refused_pods import RefusedPods
from scheduler_plugin.state.cluster import Cluster

_PREFIX: Final = "koord_scheduler_plugin_"
VERBS: Final = ("filter", "prioritize", "preempt")
QUESTIONS: Final = ("ask", "check")
"""Of the plugin inside kube-scheduler, in place of the verbs."""
OUTCOMES: Final = {
    HTTPStatus.OK: "ok",
    HTTPStatus.BAD_REQUEST: "bad_request",
    HTTPStatus.SERVICE_UNAVAILABLE: "not_ready",
    HTTPStatus.INTERNAL_SERVER_ERROR: "error",
}
# An echo takes 50 us; 300 ms is the httpTimeout of kube-scheduler in the chart.
_BUCKETS: Final = (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.3, 1.0)


class RequestMetrics:
    """Counter and histogram of kube-scheduler's calls, by verb; `observe` costs about two microseconds."""

    def __init__(self, into: CollectorRegistry, verbs: Sequence[str] = VERBS) -> None:
        build_info.register(into, "koord_scheduler_plugin")
        requests = Counter(
            f"{_PREFIX}requests",
            "Calls of kube-scheduler, by verb and outcome (not_ready: the caches are not synced yet).",
            ["verb", "outcome"],
            registry=into,
        )
        seconds = Histogram(
            f"{_PREFIX}request_duration_seconds",
            "Time from a complete request to its response, in seconds, by verb.",
            ["verb"],
            buckets=_BUCKETS,
            registry=into,
        )
        self._requests = {
            (verb, status): requests.labels(verb, outcome) for verb in verbs for status, outcome in OUTCOMES.items()
        }
        self._seconds = {verb: seconds.labels(verb) for verb in verbs}

    def observe(self, verb: str, status: HTTPStatus, seconds: float) -> None:
        """Count one call."""
        self._requests[verb, status].inc()
        self._seconds[verb].observe(seconds)


@dataclass(frozen=True, eq=False)
class StateCollector(registry.Collector):
    """Collector of the objects in memory, the state of the watches, and blindness."""

    cluster: Cluster
    watches: Mapping[str, watching.WatchState]

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        text = "Objects in memory, by kind (unconfirmed_pods: those that have a node and are not bound yet)."
        yield gauge(f"{_PREFIX}tracked_objects", text, ["kind"], self.cluster.counts())
        last = {watch: state.last_activity for watch, state in self.watches.items()}
        silence = {watch: math.nan if at is None else time.monotonic() - at for watch, at in last.items()}
        text = "Seconds since the last event or bookmark of a watch (a bookmark comes about once a minute); NaN before."
        yield gauge(f"{_PREFIX}watch_silence_seconds", text, ["watch"], silence)
        yield metrics_core.GaugeMetricFamily(
            f"{_PREFIX}expired_nodes_pass",
            "1 while nodes with expired reports pass, because this process does not see the reports; /readyz has the "
            "cause; want 0.",
            value=float(bool(self.cluster.vectors.blindness)),
        )
        for name, text in _WATCH_COUNTERS.items():
            numbers = {watch: getattr(state, name) for watch, state in self.watches.items()}
            yield counter(f"{_PREFIX}watch_{name}", text, ["watch"], numbers)


@dataclass(frozen=True, eq=False)
class RefusedPodsCollector(registry.Collector):
    """Collector of the pods that wait for a node to pass."""

    refused: RefusedPods

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        text = (
            "Refused pods that kube-scheduler was asked to try again, by cause: a refused node passes (cooled), or "
            "load alone had refused the pod for softAfterSeconds (waited)."
        )
        yield counter(f"{_PREFIX}retried_pods", text, ["cause"], self.refused.woken)
        text = "Refused pods that were dropped because too many waited; want 0."
        yield metrics_core.CounterMetricFamily(f"{_PREFIX}refused_pods_evicted", text, value=self.refused.evicted)
        text = "Pods that wait because no node passed."
        yield metrics_core.GaugeMetricFamily(f"{_PREFIX}refused_pods", text, value=len(self.refused))


_WATCH_COUNTERS: Final = {
    "lists": "Completed lists: the first, and one for each expired resource version (410).",
    "reconnects": "Watches that broke and continued from the last resource version.",
    "events": "Objects received, in lists and in watches.",
    "unreadable": "Objects that could not be decoded; the last decodable version stays in use.",
}

"""Metrics of the process. Labels are from fixed sets, and every series exists from the start."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, metrics_core, registry

from apiserver_client import watching
from component_base import build_info

_PREFIX: Final = "koord_scheduler_plugin_"
VERBS: Final = ("filter", "prioritize", "preempt", "bind")
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

    def __init__(self, into: CollectorRegistry) -> None:
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
            (verb, status): requests.labels(verb, outcome) for verb in VERBS for status, outcome in OUTCOMES.items()
        }
        self._seconds = {verb: seconds.labels(verb) for verb in VERBS}

    def observe(self, verb: str, status: HTTPStatus, seconds: float) -> None:
        """Count one call."""
        self._requests[verb, status].inc()
        self._seconds[verb].observe(seconds)


class _StateCollector(registry.Collector):
    """Collector of the objects in memory, and the state of the watches."""

    def __init__(
        self,
        counts: Callable[[], Mapping[str, int]],
        watches: Mapping[str, watching.WatchState],
        *,
        blindness: Callable[[], str],
        unfiltered_pods: Callable[[], int],
        now: Callable[[], float],
    ) -> None:
        self._counts = counts
        self._watches = watches
        self._blindness = blindness
        self._unfiltered_pods = unfiltered_pods
        self._now = now

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        tracked = metrics_core.GaugeMetricFamily(
            f"{_PREFIX}tracked_objects",
            "Objects in memory, by kind (unconfirmed_pods: assumed pods, bound but not yet shown by the watch).",
            labels=["kind"],
        )
        for kind, count in self._counts().items():
            tracked.add_metric([kind], count)
        silence = metrics_core.GaugeMetricFamily(
            f"{_PREFIX}watch_silence_seconds",
            "Seconds since the last event or bookmark of a watch (a bookmark comes about once a minute); NaN before.",
            labels=["watch"],
        )
        blind = metrics_core.GaugeMetricFamily(
            f"{_PREFIX}expired_nodes_pass",
            "1 while nodes with expired reports pass, because this process does not see the reports; /readyz has the "
            "cause; want 0.",
            value=float(bool(self._blindness())),
        )
        unfiltered = metrics_core.CounterMetricFamily(
            f"{_PREFIX}unfiltered_pods",
            "Pods that a scheduler, which calls this extender, bound without a filter call; want 0.",
        )
        unfiltered.add_metric([], self._unfiltered_pods())
        counters = {
            name: metrics_core.CounterMetricFamily(f"{_PREFIX}watch_{name}", text, labels=["watch"])
            for name, text in _WATCH_COUNTERS.items()
        }
        for watch, state in self._watches.items():
            last = state.last_activity
            silence.add_metric([watch], math.nan if last is None else self._now() - last)
            for name, family in counters.items():
                family.add_metric([watch], getattr(state, name))
        yield from (tracked, silence, blind, unfiltered, *counters.values())


_WATCH_COUNTERS: Final = {
    "lists": "Completed lists: the first, and one for each expired resource version (410).",
    "reconnects": "Watches that broke and continued from the last resource version.",
    "events": "Objects received, in lists and in watches.",
    "unreadable": "Objects that could not be decoded; the last decodable version stays in use.",
}


def register_state(
    into: CollectorRegistry,
    counts: Callable[[], Mapping[str, int]],
    watches: Mapping[str, watching.WatchState],
    *,
    blindness: Callable[[], str],
    unfiltered_pods: Callable[[], int],
) -> None:
    """Register the version, and the tracked objects, the watches, blindness and unfiltered pods."""
    build_info.register(into, "koord_scheduler_plugin")
    into.register(
        _StateCollector(counts, watches, blindness=blindness, unfiltered_pods=unfiltered_pods, now=time.monotonic)
    )

"""What the process tells about itself in /metrics. Labels come from fixed sets, every series exists from the start."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, metrics_core, registry

_PREFIX: Final = "koord_scheduler_plugin_"
VERBS: Final = ("filter", "prioritize", "bind")
OUTCOMES: Final = {
    HTTPStatus.OK: "ok",
    HTTPStatus.BAD_REQUEST: "bad_request",
    HTTPStatus.SERVICE_UNAVAILABLE: "not_ready",
    HTTPStatus.INTERNAL_SERVER_ERROR: "error",
}
# 50 us is what an echo takes, 300 ms is kube-scheduler's patience (httpTimeout).
_BUCKETS: Final = (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.3, 1.0)


class RequestMetrics:
    """Calls of kube-scheduler by verb; `observe` costs about two microseconds."""

    def __init__(self, into: CollectorRegistry) -> None:
        requests = Counter(
            f"{_PREFIX}requests",
            "Calls of kube-scheduler, by verb and outcome (not_ready: the caches are not synced yet).",
            ["verb", "outcome"],
            registry=into,
        )
        seconds = Histogram(
            f"{_PREFIX}request_duration_seconds",
            "Time from a complete request to its answer, in seconds, by verb.",
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


class _RejectionCollector(registry.Collector):
    """Counts that the extender keeps itself, because they change with every call."""

    def __init__(self, reasons: Iterable[str], counts: list[int]) -> None:
        self._reasons = list(reasons)
        self._counts = counts

    def collect(self) -> Iterable[metrics_core.Metric]:
        """One sample a reason."""
        family = metrics_core.CounterMetricFamily(
            f"{_PREFIX}rejected_nodes", "Nodes rejected by filter calls, by reason.", labels=["reason"]
        )
        for reason, count in zip(self._reasons, self._counts[1:], strict=True):
            family.add_metric([reason], count)
        yield family


def register_rejections(into: CollectorRegistry, reasons: Iterable[str], counts: list[int]) -> None:
    """Show the counts by reason; `counts` is indexed by reason code, 0 stands for "passed"."""
    into.register(_RejectionCollector(reasons, counts))


def register_state(
    into: CollectorRegistry, counts: Callable[[], Mapping[str, int]], watch_ages: Mapping[str, Callable[[], float]]
) -> None:
    """Show how much is tracked and how long ago each watch gave a sign of life."""
    tracked = Gauge(
        f"{_PREFIX}tracked_objects",
        "Objects held in memory, by kind (unconfirmed_pods: bind notices that no watch event confirmed yet).",
        ["kind"],
        registry=into,
    )

    def count(kind: str) -> int:
        return counts()[kind]

    for kind in counts():
        tracked.labels(kind).set_function(functools.partial(count, kind))
    age = Gauge(
        f"{_PREFIX}watch_silence_seconds",
        "Seconds since a watch last gave a sign of life (bookmarks come about once a minute); NaN before the first.",
        ["watch"],
        registry=into,
    )
    for watch, seconds in watch_ages.items():
        age.labels(watch).set_function(seconds)

"""Prometheus metrics of the load watcher. Labels have fixed sets of values, and every series exists from the start."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from component_base import build_info
from scheduler_plugin.load_watcher.analysis import AnomalyKind
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Windows
from scheduler_plugin.load_watcher.watcher import Refreshed

_PREFIX: Final = "koord_load_watcher_"


class WatcherMetrics:
    """Counters of refreshes; the age of the windows is read at each scrape."""

    def __init__(
        self,
        into: CollectorRegistry,
        providers: Sequence[str],
        windows: Windows,
        clock: Callable[[], float],
        analysers: Sequence[str] = (),
    ) -> None:
        build_info.register(into, "koord_load_watcher")
        counter = functools.partial(Counter, registry=into)
        failures = counter(
            f"{_PREFIX}provider_failures", "Refreshes of a window for which a provider delivered nothing.", ["provider"]
        )
        analyser_failures = counter(
            f"{_PREFIX}analyser_failures",
            "Refreshes of a window in which the result of an analyser was ignored.",
            ["analyser"],
        )
        findings = counter(f"{_PREFIX}findings", "Impossible or missing measurements, by kind.", ["finding"])
        usable = Gauge(
            f"{_PREFIX}nodes", "Nodes with a usable measurement in the newest refresh.", ["window"], registry=into
        )
        self._problems = counter(f"{_PREFIX}problems", "Failed parts of a refresh, and disagreements of providers.")
        self._refreshes = counter(f"{_PREFIX}refreshes", "Refreshes of a window.")
        age = Gauge(
            f"{_PREFIX}window_age_seconds",
            "Seconds since the newest data of a window ended; NaN before the first.",
            ["window"],
            registry=into,
        )
        for duration in DURATIONS_SECONDS:
            age.labels(duration).set_function(functools.partial(_age_seconds, windows, duration, clock))
        self._failures = {name: failures.labels(name) for name in providers}
        self._analyser_failures = {name: analyser_failures.labels(name) for name in analysers}
        self._findings = {kind: findings.labels(kind) for kind in AnomalyKind}
        self._usable = {duration: usable.labels(duration) for duration in DURATIONS_SECONDS}

    def observe(self, refreshed: Refreshed) -> None:
        """Count one refresh of one window."""
        self._refreshes.inc()
        self._problems.inc(len(refreshed.problems))
        for provider in refreshed.failures:
            self._failures[provider].inc()
        for analyser in refreshed.analyser_failures:
            self._analyser_failures[analyser].inc()
        for anomaly in refreshed.anomalies:
            self._findings[anomaly.kind].inc()
        nodes = refreshed.snapshot.data.nodes.values() if refreshed.snapshot else ()
        self._usable[refreshed.duration].set(sum(1 for node in nodes if node.metrics))


def _age_seconds(windows: Windows, duration: str, clock: Callable[[], float]) -> float:
    snapshots = windows.kept(duration)
    return clock() - snapshots[-1].window.end if snapshots else math.nan

"""Main loop of the load watcher: fetch every window from every provider, analyse, join and store it.

    provider -> analysis -> corroboration -> analysers -> windows (served) and database (restored after a crash)

A provider that fails affects only its own part of one snapshot. If all providers fail, nothing is stored: the last
snapshots keep their age, and `Windows.latest` stops serving them when they are too old.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from component_base import build_info
from scheduler_plugin.load_watcher import analysis, records
from scheduler_plugin.load_watcher.analysers.analyser import AnalyserFailed, GuardedAnalyser
from scheduler_plugin.load_watcher.analysis import Anomaly, AnomalyKind
from scheduler_plugin.load_watcher.database import Database, DatabaseUnusable
from scheduler_plugin.load_watcher.providers.provider import Fetched, Provider, ProviderFailed, ReadKnownNodes, located
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Metric, NodeMetrics, Snapshot, Windows

log = logging.getLogger(__name__)

Nodes = Mapping[str, NodeMetrics]
_LOGGED_PROBLEMS: Final = 5
"""At most this many problems are logged for each refresh; the metrics count all."""
_LONGEST_FETCH_SECONDS: Final = 60.0
"""Limit for one window of one provider, which may send dozens of requests while the other windows get older."""
_HEALTH_SECONDS: Final = 10.0
"""Time for which a health check is valid: anyone may ask, and a check costs each provider a request."""


class Refreshed(NamedTuple):
    """Result of one refresh of one window."""

    duration: str
    snapshot: Snapshot | None
    """None if no provider delivered anything."""
    failures: Mapping[str, str]
    """Provider -> why it delivered nothing."""
    problems: Sequence[str]
    """Parts that were not delivered, and values on which providers disagree."""
    anomalies: Sequence[Anomaly]
    analyser_failures: Sequence[str] = ()
    """Names of the analysers whose result was ignored."""


class LastSeen(NamedTuple):
    """Values of a node, and the end of the window in which they first appeared."""

    metrics: Sequence[Metric]
    since: float


@dataclass(eq=False)
class Watcher:
    """Refreshes `windows`. All methods run in one event loop."""

    providers: Sequence[Provider]
    windows: Windows
    _: KW_ONLY
    clock: Callable[[], float]
    expected: Callable[[], Collection[str]] = lambda: ()
    """Names of existing nodes."""
    database: Database | None = None
    located: ReadKnownNodes = dict
    """Tags and location of nodes."""
    analysers: Sequence[GuardedAnalyser] = ()

    def __post_init__(self) -> None:
        self._last_seen: dict[tuple[str, str], dict[str, LastSeen]] = {}
        """(provider, duration) -> node -> its last values and their age."""
        self._usable: dict[str, dict[str, Nodes]] = {provider.name: {} for provider in self.providers}
        """Provider -> duration -> usable nodes of its last fetch."""
        self._health_check: asyncio.Task[bool] | None = None
        self._health_checked_at = 0.0

    def restore(self, greatest_age_seconds: float) -> int:
        """Restore the snapshots of the database that are not too old and return their number."""
        if self.database is None:
            return 0
        restored = 0
        try:
            self.database.open()
            for duration in DURATIONS_SECONDS:
                now = self.clock()
                for snapshot in self.database.newest(duration, now - greatest_age_seconds, now):
                    self.windows.store(snapshot)
                    restored += 1
        except DatabaseUnusable as error:
            log.warning("%s", error)
            self.database = None
        return restored

    async def run(
        self, interval_seconds: float, refreshed: Callable[[Refreshed], None] = lambda _refreshed: None
    ) -> None:
        """Refresh every window until cancelled, with a pause between the end of one round and the next."""
        while True:
            for duration in DURATIONS_SECONDS:
                refreshed(await self.refresh(duration))
            await asyncio.sleep(interval_seconds)

    async def refresh(self, duration: str) -> Refreshed:
        """Fetch one window and store its usable part. Never raises for an external failure."""
        window = records.window_ending_at(duration, self.clock())
        results = await asyncio.gather(*(_fetched(provider, window) for provider in self.providers))
        failures: dict[str, str] = {}
        problems: list[str] = []
        anomalies: list[Anomaly] = []
        usable: dict[str, Nodes] = {}
        for provider, result in zip(self.providers, results, strict=True):
            if isinstance(result, ProviderFailed):
                failures[provider.name] = str(result)
                continue
            problems += result.problems
            analysing = asyncio.to_thread(self._analyse, provider, window, result.nodes, list(self.expected()))
            usable[provider.name], new_anomalies = await analysing
            anomalies += new_anomalies
        snapshot = None
        failed_analysers: list[str] = []
        if usable:
            corroborated = analysis.corroborate(usable)
            problems += corroborated.disagreements
            nodes = located(corroborated.nodes, self.located())
            for analyser in self.analysers:
                try:
                    nodes = await analyser.analyse(window, nodes)
                except AnalyserFailed as error:
                    failed_analysers.append(analyser.name)
                    log.warning("window %s: %s; its result is ignored", duration, error)
            snapshot = await asyncio.to_thread(records.joined, nodes, window, ",".join(usable))
            await self._store(snapshot)
        for name, why in failures.items():
            log.warning("window %s: no data from %s: %s", duration, name, why)
        texts = [*problems, *(one.text for one in anomalies)]
        for text in texts[:_LOGGED_PROBLEMS]:
            log.warning("window %s: %s", duration, text)
        if len(texts) > _LOGGED_PROBLEMS:
            log.warning("window %s: %d more problems", duration, len(texts) - _LOGGED_PROBLEMS)
        return Refreshed(duration, snapshot, failures, problems, anomalies, failed_analysers)

    async def check(self) -> None:
        """Check every provider once and log its problems."""
        for provider in self.providers:
            try:
                problems = await provider.check()
            except Exception as error:  # see _fetched
                problems = [_unexpected(provider, error)]
            for problem in problems:
                log.warning("%s: %s", provider.name, problem)

    async def is_healthy(self) -> bool:
        """Return whether at least one provider responded to the last check, at most 10 s ago."""
        now = asyncio.get_running_loop().time()
        if self._health_check is None or now - self._health_checked_at >= _HEALTH_SECONDS:
            self._health_check, self._health_checked_at = asyncio.create_task(self._check_health()), now
        return await asyncio.shield(self._health_check)

    async def _check_health(self) -> bool:
        results = await asyncio.gather(*(provider.is_healthy() for provider in self.providers), return_exceptions=True)
        return any(result is True for result in results)

    async def close(self) -> None:
        """Close the connections and the file."""
        if self._health_check is not None:
            self._health_check.cancel()
        await asyncio.gather(*(provider.close() for provider in self.providers))
        if self.database is not None:
            self.database.close()

    def _analyse(
        self, provider: Provider, window: records.Window, nodes: Nodes, expected: Collection[str]
    ) -> tuple[Nodes, Sequence[Anomaly]]:
        duration, seconds = window.duration, DURATIONS_SECONDS[window.duration]
        nodes = records.dated(nodes, window)
        before = self._last_seen.get((provider.name, duration), {})
        last_seen = {name: _last_seen(node, window.end, before.get(name)) for name, node in nodes.items()}
        self._last_seen[provider.name, duration] = last_seen
        analysed = analysis.analyse(
            duration,
            nodes,
            unchanged_seconds={name: window.end - since for name, (_metrics, since) in last_seen.items()},
            shorter={name: of for name, of in self._usable[provider.name].items() if DURATIONS_SECONDS[name] < seconds},
            expected=expected,
            end=window.end,
            oldest_seconds=self.windows.greatest_age_seconds,
            has_deviation=provider.has_deviation,
        )
        self._usable[provider.name][duration] = analysed.nodes
        return analysed.nodes, analysed.anomalies

    async def _store(self, snapshot: Snapshot) -> None:
        self.windows.store(snapshot)
        if self.database is None:
            return
        try:
            await asyncio.to_thread(self.database.write, snapshot)
        except DatabaseUnusable as error:
            log.warning("%s", error)


def _last_seen(node: NodeMetrics, at: float, before: LastSeen | None) -> LastSeen:
    return before if before is not None and before.metrics == node.metrics else LastSeen(node.metrics, at)


async def _fetched(provider: Provider, window: records.Window) -> Fetched | ProviderFailed:
    try:
        async with asyncio.timeout(_LONGEST_FETCH_SECONDS):
            return await provider.fetch(window)
    except ProviderFailed as error:
        return error
    except TimeoutError:
        return ProviderFailed(f"the window was not complete within {_LONGEST_FETCH_SECONDS:g} s")
    except Exception as error:  # an unexpected response must not end the scheduler
        return ProviderFailed(_unexpected(provider, error))


def _unexpected(provider: Provider, error: Exception) -> str:
    log.error("provider %s: unexpected error", provider.name, exc_info=error)
    return f"unexpected error: {error!r}"


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
        gauge = functools.partial(Gauge, labelnames=["window"], registry=into)
        usable = gauge(f"{_PREFIX}nodes", "Nodes with a usable measurement in the newest refresh.")
        self._problems = counter(f"{_PREFIX}problems", "Failed parts of a refresh, and disagreements of providers.")
        self._refreshes = counter(f"{_PREFIX}refreshes", "Refreshes of a window.")
        age = gauge(
            f"{_PREFIX}window_age_seconds", "Seconds since the newest data of a window ended; NaN before the first."
        )

        def age_seconds(duration: str) -> float:
            snapshots = windows.kept(duration)
            return clock() - snapshots[-1].window.end if snapshots else math.nan

        for duration in DURATIONS_SECONDS:
            age.labels(duration).set_function(functools.partial(age_seconds, duration))
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

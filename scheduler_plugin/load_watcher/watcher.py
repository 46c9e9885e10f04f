"""Fetch every window from every provider, judge, join, keep: the loop of the load watcher.

    provider -> analysis -> corroboration -> windows (answers) and database (memory of the crash)

A provider that fails costs its own part of one snapshot and nothing else. When all fail nothing is stored: what is
known ages in sight of everybody, until `Windows.latest` does not answer any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler_plugin.load_watcher import analysis, corroboration, records
from scheduler_plugin.load_watcher.analysis import Anomaly
from scheduler_plugin.load_watcher.database import Database, DatabaseUnusable
from scheduler_plugin.load_watcher.providers.provider import Fetched, Provider, ProviderFailed
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, SHORTEST, Data, Metric, NodeMetrics, Snapshot
from scheduler_plugin.load_watcher.windows import Windows

log = logging.getLogger(__name__)

Nodes = Mapping[str, NodeMetrics]

_TOLD_AT_MOST: Final = 5
_LONGEST_FETCH_SECONDS: Final = 60.0
"""For a window from one provider, who may ask dozens of times: the windows of the others get older meanwhile."""
"""Lines of the log about one refresh; the metrics count all."""


class Refreshed(NamedTuple):
    """What one refresh of one window came to."""

    duration: str
    snapshot: Snapshot | None
    """None when no provider delivered anything."""
    failures: Mapping[str, str]
    """Provider -> why nothing came from it."""
    problems: Sequence[str]
    """Parts that did not come, and values on which providers disagree."""
    found: Sequence[Anomaly]


class LastSeen(NamedTuple):
    """Values of a node, and the end of the window in which they were first seen."""

    metrics: Sequence[Metric]
    since: float


class Watcher:
    """Keeps `windows` fresh. All methods run in one event loop."""

    def __init__(
        self,
        providers: Sequence[Provider],
        windows: Windows,
        *,
        clock: Callable[[], float],
        expected: Callable[[], Collection[str]] = lambda: (),
        database: Database | None = None,
    ) -> None:
        self._providers = providers
        self._windows = windows
        self._clock = clock
        self._expected = expected
        self._database = database
        self._standing: dict[tuple[str, str], dict[str, LastSeen]] = {}
        """By provider and duration: what each node's values were, and since when."""
        self._usable: dict[str, dict[str, Nodes]] = {provider.name: {} for provider in providers}
        """Provider -> duration -> what was usable of its last delivery."""

    def recall(self, greatest_age_seconds: float) -> int:
        """Take back from the database what is not too old, newest windows first to answer. Returns how many came."""
        if self._database is None:
            return 0
        recalled = 0
        try:
            self._database.open()
            for duration in DURATIONS_SECONDS:
                now = self._clock()
                for snapshot in self._database.newest(duration, now - greatest_age_seconds, now):
                    self._windows.store(snapshot)
                    recalled += 1
        except DatabaseUnusable as error:
            log.warning("%s", error)
            self._database = None
        return recalled

    async def run(
        self, interval_seconds: float, refreshed: Callable[[Refreshed], None] = lambda _refreshed: None
    ) -> None:
        """Refresh every window, for ever; the pause is between the end of one round and the begin of the next."""
        while True:
            for duration in DURATIONS_SECONDS:
                refreshed(await self.refresh(duration))
            await asyncio.sleep(interval_seconds)

    async def refresh(self, duration: str) -> Refreshed:
        """Fetch one window and keep what is usable of it. Never raises for what happens outside."""
        window = records.window_ending_at(duration, self._clock())
        answers = await asyncio.gather(*(_fetched(provider, window) for provider in self._providers))
        failures: dict[str, str] = {}
        problems: list[str] = []
        found: list[Anomaly] = []
        usable: dict[str, Nodes] = {}
        ends: list[int] = []
        for provider, answer in zip(self._providers, answers, strict=True):
            if isinstance(answer, ProviderFailed):
                failures[provider.name] = str(answer)
                continue
            problems += answer.problems
            ends.append(window.end if answer.end is None else min(answer.end, window.end))
            expected = list(self._expected())
            judging = asyncio.to_thread(self._judge, provider.name, window, answer.nodes, expected)
            usable[provider.name], own = await judging
            found += own
        snapshot = None
        if usable:
            both = corroboration.corroborate(usable)
            problems += both.disagreements
            source = ",".join(usable)
            ended = records.window_ending_at(duration, max(ends))  # what another watcher knew may be minutes old
            snapshot = Snapshot(int(self._clock()), ended, source, Data(dict(both.nodes)))
            await self._keep(snapshot)
        _tell(duration, failures, [*problems, *(one.text for one in found)])
        return Refreshed(duration, snapshot, failures, problems, found)

    async def check(self) -> None:
        """Look once whether every provider delivers what is wanted, and log what does not."""
        for provider in self._providers:
            try:
                problems = await provider.check()
            except Exception as error:  # see _fetched
                problems = [_unexpected(provider, error)]
            for problem in problems:
                log.warning("%s: %s", provider.name, problem)

    async def is_healthy(self) -> bool:
        """Whether at least one provider answers right now."""
        answers = await asyncio.gather(*(provider.is_healthy() for provider in self._providers), return_exceptions=True)
        return any(answer is True for answer in answers)

    async def close(self) -> None:
        """End connections and close the file."""
        await asyncio.gather(*(provider.close() for provider in self._providers))
        if self._database is not None:
            self._database.close()

    def _judge(
        self, provider: str, window: records.Window, nodes: Nodes, expected: Collection[str]
    ) -> tuple[Nodes, Sequence[Anomaly]]:
        duration, seconds = window.duration, DURATIONS_SECONDS[window.duration]
        before = self._standing.get((provider, duration), {})
        standing = {name: _standing(node, window.end, before.get(name)) for name, node in nodes.items()}
        self._standing[provider, duration] = standing
        analysed = analysis.analyse(
            duration,
            nodes,
            unchanged_seconds={name: window.end - since for name, (_metrics, since) in standing.items()},
            shorter={name: of for name, of in self._usable[provider].items() if DURATIONS_SECONDS[name] < seconds},
            expected=expected,
            recent=None if duration == SHORTEST else self._standing.get((provider, SHORTEST)),
        )
        self._usable[provider][duration] = analysed.nodes
        return analysed.nodes, analysed.found

    async def _keep(self, snapshot: Snapshot) -> None:
        self._windows.store(snapshot)
        if self._database is None:
            return
        try:
            await asyncio.to_thread(self._database.write, snapshot)
        except DatabaseUnusable as error:
            log.warning("%s", error)


def _standing(node: NodeMetrics, at: float, before: LastSeen | None) -> LastSeen:
    return before if before is not None and before.metrics == node.metrics else LastSeen(node.metrics, at)


async def _fetched(provider: Provider, window: records.Window) -> Fetched | ProviderFailed:
    try:
        async with asyncio.timeout(_LONGEST_FETCH_SECONDS):
            return await provider.fetch(window)
    except ProviderFailed as error:
        return error
    except TimeoutError:
        return ProviderFailed(f"a window was not whole within {_LONGEST_FETCH_SECONDS:g} s")
    except Exception as error:  # what a server may answer is not all foreseen, and must not end the scheduler
        return ProviderFailed(_unexpected(provider, error))


def _unexpected(provider: Provider, error: Exception) -> str:
    log.error("provider %s failed in a way that was not foreseen", provider.name, exc_info=error)
    return f"not foreseen: {error!r}"


def _tell(duration: str, failures: Mapping[str, str], problems: Sequence[str]) -> None:
    for name, why in failures.items():
        log.warning("window %s: nothing from %s: %s", duration, name, why)
    for problem in problems[:_TOLD_AT_MOST]:
        log.warning("window %s: %s", duration, problem)
    if len(problems) > _TOLD_AT_MOST:
        log.warning("window %s: and %d more of that kind", duration, len(problems) - _TOLD_AT_MOST)

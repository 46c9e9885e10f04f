"""Interface of an analyser, its selection by name from the installed packages, and the guard around it.

Whatever an analyser does, the measurements without it are served. Its result is ignored where it raises, needs longer
than `LONGEST_SECONDS` (it is then not called until it returned), or returns other types, nodes that were not given, too
many records, an impossible value, or a deviation without its mean. What it gets and what it returns are copied.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Final, Protocol

import msgspec

from scheduler_plugin.load_watcher import analysis
from scheduler_plugin.load_watcher.records import NodeMetrics, Window

GROUP: Final = "koord_load_watcher.analysers"
"""Entry-point group: name -> class without parameters, or another callable that returns an analyser."""


class Analyser(Protocol):
    """Model that sees every window before it is served."""

    def analyse(self, window: Window, nodes: Mapping[str, NodeMetrics]) -> Mapping[str, NodeMetrics]:
        """Return the nodes to serve; called in a thread, once for each window that was fetched.

        `nodes` are copies, in percent of capacity, after impossible values were dropped. The result may have other
        records, and no other nodes. See the module for what makes it refused.
        """
        ...


class AnalyserUnusable(Exception):
    """An analyser cannot be loaded; the message names it and the cause."""


def load(names: Sequence[str]) -> dict[str, Analyser]:
    """Load the named analysers, in their order; others are not imported. Raises AnalyserUnusable."""
    installed = {point.name: point for point in metadata.entry_points(group=GROUP)}
    loaded: dict[str, Analyser] = {}
    for name in names:
        if name not in installed:
            available = ", ".join(sorted(installed)) or "none"
            raise AnalyserUnusable(f"analyser {name} is not installed; entry points of {GROUP}: {available}")
        try:
            built = installed[name].load()()
        except Exception as error:
            raise AnalyserUnusable(f"analyser {name} ({installed[name].value}) cannot be loaded: {error!r}") from error
        if not callable(getattr(built, "analyse", None)):
            raise AnalyserUnusable(f"analyser {name} ({installed[name].value}) has no method analyse(window, nodes)")
        loaded[name] = built
    return loaded


LONGEST_SECONDS: Final = 5.0
"""Limit of one call; the windows that follow wait for it."""
MOST_RECORDS: Final = 100
"""Limit of records of one node."""


class AnalyserFailed(Exception):
    """The result cannot be used; the message names the analyser, and what was seen."""


_Done = concurrent.futures.Future[Mapping[str, NodeMetrics] | Exception]


class GuardedAnalyser:
    """One analyser, at most one call of which runs at a time."""

    def __init__(self, name: str, guarded: Analyser) -> None:
        self.name = name
        self._guarded = guarded
        self._thread: threading.Thread | None = None

    async def analyse(self, window: Window, nodes: Mapping[str, NodeMetrics]) -> Mapping[str, NodeMetrics]:
        """Return the checked result. Raises AnalyserFailed."""
        if self._thread is not None and self._thread.is_alive():
            raise AnalyserFailed(f"analyser {self.name}: an earlier call has not returned, so it is not called")
        done: _Done = concurrent.futures.Future()
        done.set_running_or_notify_cancel()  # a result that comes too late is no error
        # A daemon: a thread pool would wait for it at exit.
        self._thread = threading.Thread(
            target=self._work, args=(window, nodes, done), name=f"analyser-{self.name}", daemon=True
        )
        self._thread.start()
        try:
            result = await asyncio.wait_for(asyncio.wrap_future(done), LONGEST_SECONDS)
        except TimeoutError:
            raise AnalyserFailed(f"analyser {self.name}: no result within {LONGEST_SECONDS:g} s") from None
        if isinstance(result, Exception):
            raise AnalyserFailed(f"analyser {self.name}: {result!r}") from result
        return result

    def _work(self, window: Window, nodes: Mapping[str, NodeMetrics], done: _Done) -> None:
        try:
            done.set_result(_checked(self._guarded.analyse(window, _copied(nodes)), window, nodes))
        except BaseException as error:  # foreign code may raise anything, SystemExit as well
            done.set_result(error if isinstance(error, Exception) else RuntimeError(repr(error)))


def _copied(nodes: Any) -> dict[str, NodeMetrics]:
    """Copy nodes with their lists and check all types. Raises msgspec.ValidationError, TypeError."""
    return msgspec.convert(msgspec.to_builtins(nodes), dict[str, NodeMetrics])


def _checked(result: Any, window: Window, measured: Mapping[str, NodeMetrics]) -> dict[str, NodeMetrics]:
    nodes = _copied(result)
    foreign = sorted(nodes.keys() - measured.keys())
    if foreign:
        raise ValueError(f"it returned node {foreign[0]}, which has no measurements")
    for name, node in nodes.items():
        if len(node.metrics) > MOST_RECORDS:
            raise ValueError(f"node {name} has {len(node.metrics)} records, want at most {MOST_RECORDS}")
    wrong = analysis.analyse(window.duration, nodes, unchanged_seconds={}, shorter={}, expected=()).anomalies
    if wrong:
        raise ValueError(wrong[0].text)
    return nodes

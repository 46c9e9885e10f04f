"""Interface of an analyser, and its selection by name from the installed packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Final, Protocol

from scheduler_plugin.load_watcher.records import NodeMetrics, Window

GROUP: Final = "koord_load_watcher.analysers"
"""Entry-point group: name -> class without parameters, or another callable that returns an analyser."""


class Analyser(Protocol):
    """Model that sees every window before it is served."""

    def analyse(self, window: Window, nodes: Mapping[str, NodeMetrics]) -> Mapping[str, NodeMetrics]:
        """Return the nodes to serve; called in a thread, once for each window that was fetched.

        `nodes` are copies, in percent of capacity, after impossible values were dropped. The result may have other
        records, and no other nodes. See `guarded_analyser` for what makes it refused.
        """
        ...


class AnalyserUnusable(Exception):
    """An analyser cannot be loaded; the message names it and the cause."""


def names_in(text: str) -> list[str]:
    """Split names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


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

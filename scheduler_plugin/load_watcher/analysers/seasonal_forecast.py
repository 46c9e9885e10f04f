"""Example of an analyser: forecast CPU and memory of the next 15 minutes from the same time of earlier days.

    forecast = usual(next quarter of an hour) + now - usual(this quarter of an hour), within 0 to 100 percent

`usual` is an exponential moving mean over days. The forecast is an additional record of the 15 minute window with the
operator `Forecast`, which the score plugins do not read: it is for dashboards and for schedulers that know it.
"""

from __future__ import annotations

import array
import math
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler_plugin.load_watcher.records import BOUNDED, Metric, NodeMetrics, Statistic, Window

OPERATOR: Final = "Forecast"
_NAME: Final = "seasonal-forecast"
_SLOT_SECONDS: Final = 900
_SLOTS: Final = 86400 // _SLOT_SECONDS
_SHARE_OF_A_DAY: Final = 0.3
"""Share of the last day in `usual`; after a week the days before have 8 %."""
_FORGOTTEN_SLOTS: Final = 2 * _SLOTS
"""A node without data for two days is forgotten."""


class Season:
    """Usual values of one resource of one node by quarter of an hour; NaN before the first day."""

    def __init__(self) -> None:
        self._usual = array.array("f", [math.nan]) * _SLOTS
        self._sum = 0.0
        self._count = 0
        self.slot = -1
        """Quarter of an hour since the epoch that is being averaged."""

    def add(self, slot: int, value: float) -> None:
        """Add a mean that ended in this quarter of an hour since the epoch. One before the last is ignored."""
        if slot < self.slot:
            return
        if slot > self.slot:
            if self._count:
                place, mean = self.slot % _SLOTS, self._sum / self._count
                before = self._usual[place]
                self._usual[place] = mean if math.isnan(before) else before + _SHARE_OF_A_DAY * (mean - before)
            self._sum, self._count, self.slot = 0.0, 0, slot
        self._sum += value
        self._count += 1

    def forecast(self, value: float) -> float | None:
        """Forecast the mean of the next quarter of an hour, in percent; None before a day was seen."""
        now, then = self._usual[self.slot % _SLOTS], self._usual[(self.slot + 1) % _SLOTS]
        expected = then + value - now
        return None if math.isnan(expected) else min(max(expected, 0.0), 100.0)


class SeasonalForecast:
    """Analyser with 400 bytes for each resource of each node. A restart forgets what it learned."""

    def __init__(self) -> None:
        self._seasons: dict[tuple[str, str], Season] = {}

    def analyse(self, window: Window, nodes: Mapping[str, NodeMetrics]) -> Mapping[str, NodeMetrics]:
        """Learn from the 15 minute window, and add a forecast to each node with a day of history."""
        if window.duration != "15m":
            return nodes
        result = {name: self._with_forecast(name, node, window) for name, node in nodes.items()}
        oldest = window.end // _SLOT_SECONDS - _FORGOTTEN_SLOTS
        self._seasons = {key: season for key, season in self._seasons.items() if season.slot >= oldest}
        return result

    def _with_forecast(self, name: str, node: NodeMetrics, window: Window) -> NodeMetrics:
        end = node.window.end if node.window else window.end
        added = []
        for metric in node.metrics:
            if metric.type in BOUNDED and metric.operator == Statistic.AVG:
                season = self._seasons.setdefault((name, metric.type), Season())
                season.add(end // _SLOT_SECONDS, metric.value)
                value = season.forecast(metric.value)
                if value is not None:
                    added.append(Metric(_NAME, metric.type, OPERATOR, window.duration, value))
        return msgspec.structs.replace(node, metrics=[*node.metrics, *added]) if added else node

"""Metrics that a collector reads when a scrape arrives, each with all of its series in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Series = Mapping[Any, float] | Iterable[tuple[Sequence[str], float]]
"""Amounts by the value of the one label, or each with the values of all labels."""
_FamilyT = TypeVar("_FamilyT", CounterMetricFamily, GaugeMetricFamily)


def gauge(name: str, text: str, labels: Sequence[str], series: Series) -> GaugeMetricFamily:
    """Return a gauge with these series."""
    return _filled(GaugeMetricFamily(name, text, labels=labels), series)


def counter(name: str, text: str, labels: Sequence[str], series: Series) -> CounterMetricFamily:
    """Return a counter with these series."""
    return _filled(CounterMetricFamily(name, text, labels=labels), series)


def _filled(family: _FamilyT, series: Series) -> _FamilyT:
    rows = (([value], amount) for value, amount in series.items()) if isinstance(series, Mapping) else series
    for values, amount in rows:
        family.add_metric(values, amount)
    return family

"""Samples of a Prometheus text page, and quantiles of its histograms. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


class Sample(NamedTuple):
    """One sample."""

    name: str
    labels: dict[str, str]
    value: float


def samples(page: str, prefix: str) -> Iterator[Sample]:
    """Samples whose name begins so."""
    for line in page.splitlines():
        if line.startswith(prefix) and (found := _SAMPLE.match(line)):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found.group(2) or ""))
            yield Sample(found.group(1), labels, float(found.group(3)))


def total(page: str, prefix: str) -> float:
    """Sum of the samples whose name begins so."""
    return sum(sample.value for sample in samples(page, prefix))


def buckets(page: str, histogram: str) -> dict[float, float]:
    """Upper bound -> count of all that is not larger, of a histogram without further labels."""
    return {float(each.labels["le"]): each.value for each in samples(page, f"{histogram}_bucket")}


def quantile(cumulative: Mapping[float, float], share: float) -> float:
    """Of a cumulative histogram, interpolated within its bucket as Prometheus does; the last bound beyond that."""
    wanted = share * max(cumulative.values())
    low, below = 0.0, 0.0
    for bound, count in sorted(cumulative.items()):
        if count >= wanted:
            return low if bound == float("inf") else low + (bound - low) * (wanted - below) / (count - below)
        low, below = bound, count
    return low

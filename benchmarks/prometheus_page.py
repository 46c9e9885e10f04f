"""Parser of a Prometheus text page, with quantiles of its histograms. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


class Sample(NamedTuple):
    """One sample of a page."""

    name: str
    labels: dict[str, str]
    value: float


def samples(page: str, prefix: str) -> Iterator[Sample]:
    """Yield the samples with this prefix of their name."""
    for line in page.splitlines():
        if line.startswith(prefix) and (found := _SAMPLE.match(line)):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found.group(2) or ""))
            yield Sample(found.group(1), labels, float(found.group(3)))


def total(page: str, prefix: str) -> float:
    """Sum the samples with this prefix of their name."""
    return sum(sample.value for sample in samples(page, prefix))


def buckets(page: str, histogram: str) -> dict[float, float]:
    """Return upper bound -> cumulative count of a histogram without further labels."""
    return {float(each.labels["le"]): each.value for each in samples(page, f"{histogram}_bucket")}


def quantile(cumulative: Mapping[float, float], share: float) -> float:
    """Compute a quantile of a cumulative histogram, interpolated within its bucket as Prometheus does.

    A quantile above the last finite bound is that bound.
    """
    wanted = share * max(cumulative.values())
    low, below = 0.0, 0.0
    for bound, count in sorted(cumulative.items()):
        if count >= wanted:
            return low if bound == float("inf") else low + (bound - low) * (wanted - below) / (count - below)
        low, below = bound, count
    return low

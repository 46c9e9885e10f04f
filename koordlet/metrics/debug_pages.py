"""Debug pages with the inputs of a prediction, so that independent code can verify it.

`/debug/samples` returns every cached raw sample, the times of training and of prediction, and the forecasts of the live
evaluation: the open one, with its pods, and the last ones that were closed. Its inputs are copied on the event loop,
which writes them; the page is made from the copy, one series at a time, as the client reads: as a whole it has some
30 MiB on a node with 250 pods.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from component_base.http_endpoint import Page, Route
from koordlet.metric_cache.aggregation import WindowSamples
from koordlet.report.builder import ReportBuilder
from koordlet.samples import RESOURCES

_TIMEOUT_SECONDS: Final = 5.0


class _Inputs(NamedTuple):
    """Copies of everything on the page, made on the event loop."""

    pods: WindowSamples
    trained_at_seconds: list[float]
    predicted_at_seconds: list[float]
    forecasts: bytes


def inputs(reports: ReportBuilder) -> _Inputs:
    """Copy the inputs of the page."""
    observer = reports.observer
    evaluation = observer.evaluation
    until_seconds = observer.newest_at_seconds or 0.0
    return _Inputs(
        observer.cache.cached(until_seconds),
        list(observer.trained_at_seconds),
        list(reports.predicted_at_seconds),
        msgspec.json.encode({"open": evaluation.forecast, "closed": list(evaluation.closed)}),
    )


def pieces(of: _Inputs) -> Iterator[bytes]:
    """Yield the page, one series at a time: times, and for each series and resource one value a time, null for none."""
    yield b"{"
    yield from _table(of.pods)
    yield b',"trainedAtSeconds":%b' % msgspec.json.encode(of.trained_at_seconds)
    yield b',"predictedAtSeconds":%b' % msgspec.json.encode(of.predicted_at_seconds)
    yield b',"forecasts":%b' % of.forecasts
    yield b"}\n"


def _table(cached: WindowSamples) -> Iterator[bytes]:
    yield b'"atSeconds":%b,"series":[' % msgspec.json.encode(cached.at_seconds.tolist())
    for index, key in enumerate(cached.keys):
        series: dict[str, Any] = {"kind": key.kind, "identity": key.identity}
        for row, resource in enumerate(RESOURCES):
            values = cached.values[row, index].tolist()
            series[resource] = [None if math.isnan(value) else value for value in values]
        yield (b",\n" if index else b"\n") + msgspec.json.encode(series)
    yield b"]"


def routes(reports: ReportBuilder, loop: asyncio.AbstractEventLoop) -> Mapping[str, Route]:
    """Return the pages, by path."""

    async def copy() -> _Inputs:
        return inputs(reports)

    def show_samples(_query: Mapping[str, str]) -> Page:
        copied = asyncio.run_coroutine_threadsafe(copy(), loop).result(_TIMEOUT_SECONDS)
        return Page("application/json", pieces(copied))

    return {"/debug/samples": show_samples}

"""Debug pages with the inputs of a prediction, so that independent code can verify it.

`/debug/samples` returns every cached raw sample and the times of training and of prediction. The pages are built on the
event loop, not in the thread of the HTTP endpoint, because the loop writes the data they read.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy.typing as npt

from component_base.http_endpoint import Page, Route, json_page
from koordlet.metric_cache.interface import WindowSamples
from koordlet.report.builder import ReportBuilder
from koordlet.samples import RESOURCES

_TIMEOUT_SECONDS: Final = 5.0


def _column(values: npt.NDArray[Any]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _table(cached: WindowSamples) -> dict[str, Any]:
    return {
        "atSeconds": cached.at_seconds.tolist(),
        "series": [
            {
                "kind": key.kind,
                "identity": key.identity,
                **{resource: _column(cached.values[row, index]) for row, resource in enumerate(RESOURCES)},
            }
            for index, key in enumerate(cached.keys)
        ],
    }


def samples(reports: ReportBuilder) -> dict[str, Any]:
    """Return every cached raw sample: times, and for each series and resource one value per time, null for no value.

    Containers are measured less often and have a table of their own, which is null where they are not measured.
    """
    observer = reports.observer
    until_seconds = observer.newest_at_seconds or 0.0
    containers = observer.cache.containers
    return {
        **_table(observer.cache.cached(until_seconds)),
        "trainedAtSeconds": list(observer.trained_at_seconds),
        "predictedAtSeconds": list(reports.predicted_at_seconds),
        "containers": None if containers is None else _table(containers.cached(until_seconds)),
    }


def routes(reports: ReportBuilder, loop: asyncio.AbstractEventLoop) -> Mapping[str, Route]:
    """Return the pages, by path."""

    async def build() -> dict[str, Any]:
        return samples(reports)

    def show_samples(_query: Mapping[str, str]) -> Page:
        return json_page(asyncio.run_coroutine_threadsafe(build(), loop).result(_TIMEOUT_SECONDS))

    return {"/debug/samples": show_samples}

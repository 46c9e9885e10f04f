"""Prometheus for a command, which waits for each query, and the steps and UTC days that a command reads.

Errors name the flag that is the fix.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from api_types.wire_model import without_credentials
from component_base import http_client, prometheus
from component_base.http_client import HttpClient, Reach, RequestFailed
from component_base.prometheus import InstantValue, Labels, PrometheusClient
from koordlet.prediction.histogram_bank import FloatArray

DAY_SECONDS: Final = 86_400
_LATEST_SAMPLE_SECONDS: Final = 3600
"""A day is complete so long after its end: samples arrive late, and the clocks of two machines differ."""


class TimeRange(NamedTuple):
    """Steps at multiples of `step_seconds`; `start` is the first, Unix seconds."""

    start: int
    step_seconds: int
    steps: int

    @property
    def end(self) -> int:
        """Time of the last step."""
        return self.start + (self.steps - 1) * self.step_seconds


class RangeDay(NamedTuple):
    """Steps of a UTC day; all of them where `is_complete`."""

    time_range: TimeRange
    is_complete: bool
    """Whether the day is over, so that its samples do not change any more."""


def steps_between(start_seconds: int, end_seconds: int, step_seconds: int) -> TimeRange:
    """Return the steps from a time to another, both included where they are multiples of the step."""
    first = -(-start_seconds // step_seconds) * step_seconds
    return TimeRange(first, step_seconds, (end_seconds - first) // step_seconds + 1)


def split_days(time_range: TimeRange, now_seconds: float) -> list[RangeDay]:
    """Return the days of a time range, in order. A complete day is whole, also where the range begins or ends in it."""
    days = []
    for day in range(time_range.start // DAY_SECONDS, time_range.end // DAY_SECONDS + 1):
        begin, end = day * DAY_SECONDS, (day + 1) * DAY_SECONDS
        is_complete = end + _LATEST_SAMPLE_SECONDS <= now_seconds
        if not is_complete:
            begin, end = max(begin, time_range.start), min(end, time_range.end + 1)
        steps = steps_between(begin, end - 1, time_range.step_seconds)
        if steps.steps > 0:
            days.append(RangeDay(steps, is_complete))
    return days


ResultT = TypeVar("ResultT")
_FIXES: Final = {
    prometheus.BadQuery: "check --selector and the metric names",
    prometheus.CredentialsRefused: "give a token that may query with --token-file",
    prometheus.TooMuchData: "raise --query.max-samples and --query.timeout of Prometheus, or read less with --selector "
    "or a longer --step",
    http_client.TimedOut: "raise --timeout, or read less with --nodes or a longer --step",
    http_client.BadCertificates: "check --ca-file",
    RequestFailed: "check --prometheus, --token-file and --ca-file",
}


class CannotRead(Exception):
    """Prometheus did not answer, or refused; the text names the address, what was seen and the fix."""


class RejectedQuery(Exception):
    """Prometheus does not accept a query: a selector or a metric name of the user is wrong."""


class StepSeries(NamedTuple):
    """One series of an answer; `values` is (steps,), NaN where there is none."""

    labels: Labels
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Server:
    """Address and credentials of a Prometheus."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    timeout_seconds: float = 120.0

    @property
    def shown(self) -> str:
        """Return the address without credentials."""
        return without_credentials(self.url)

    def reach(self) -> Reach:
        """Return how to connect."""
        token_file = str(self.token_file or "")
        ca_file = str(self.ca_file or "")
        return Reach(self.url, lambda: http_client.bearer(token_file), self.timeout_seconds, ca_file=ca_file)


class Prometheus:
    """Connection to one Prometheus; close it after use. Every method raises CannotRead and BadQuery."""

    def __init__(self, server: Server) -> None:
        self._client = PrometheusClient(HttpClient(server.reach()))
        self._runner = asyncio.Runner()
        self.warnings = self._client.warnings
        """What Prometheus, or a proxy of several, added to its results: they may be incomplete."""

    def close(self) -> None:
        """Close the connection."""
        self._runner.run(self._client.close())
        self._runner.close()

    def exists(self, selector: str, time_range: TimeRange) -> bool:
        """Return whether any series matches in the time range."""
        return self._wait(self._client.exists(selector, time_range.start, time_range.end))

    def instant(self, query: str, at_seconds: float) -> list[InstantValue]:
        """Return labels and value of every series at a time."""
        return self._wait(self._client.query(query, at_seconds))

    def range(self, query: str, time_range: TimeRange) -> list[StepSeries]:
        """Return every series over the steps of a range."""
        step, end = time_range.step_seconds, time_range.end
        series = []
        for labels, points in self._wait(self._client.query_range(query, range(time_range.start, end + 1, step))):
            values = np.full(time_range.steps, np.nan)
            if points:
                times, numbers = np.array(points).T
                values[np.rint((times - time_range.start) / step).astype(int)] = numbers
            series.append(StepSeries(labels, values))
        return series

    def _wait(self, query: Coroutine[Any, Any, ResultT]) -> ResultT:
        try:
            return self._runner.run(query)
        except RequestFailed as error:
            fix = next(text for kind, text in _FIXES.items() if isinstance(error, kind))
            kind = RejectedQuery if isinstance(error, prometheus.BadQuery) else CannotRead
            raise kind(f"{error}; {fix}") from None

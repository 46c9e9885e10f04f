"""Client of the HTTP API of Prometheus: instant and range queries.

The texts of errors name the address and what was seen; a caller adds the flag or the setting that is the fix. The token
is part of none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from component_base.http_client import AnswerTooLarge, HttpClient, RequestFailed, one_line

_MOST_POINTS: Final = 10_000
"""Prometheus refuses more than 11,000 points a series."""
_SHORTEST_SECONDS: Final = 3_600
_LONGEST_TEXT: Final = 300
_TOO_MUCH: Final = re.compile(r"too many samples|exceeded|max(imum)? number|limit", re.IGNORECASE)
_HINT: Final = "PromQL info"
"""Begin of a hint about a query, which some versions return as a warning."""
_USE_GET: Final = (HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
DataT = TypeVar("DataT")
Labels = Mapping[str, str]


class BadQuery(RequestFailed):
    """Prometheus does not accept a query: a selector or a metric name is wrong."""


class CredentialsRefused(RequestFailed):
    """Prometheus wants another token."""


class TooMuchData(RequestFailed):
    """A query reads more than Prometheus allows, also over an hour."""


class InstantValue(NamedTuple):
    """One series of an instant query."""

    labels: Labels
    value: float


class _Instant(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str] = (0.0, "nan")


class _Range(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Instants(msgspec.Struct):
    result: list[_Instant]
    resultType: Literal["vector"] = "vector"  # noqa: N815  # as Prometheus spells it


class _Ranges(msgspec.Struct):
    result: list[_Range]


class _Answer(msgspec.Struct, rename={"error_type": "errorType"}):
    status: Literal["success", "error"]
    data: msgspec.Raw = msgspec.Raw(b"null")
    error_type: str = ""
    error: str = ""
    warnings: list[str] = []


class PrometheusClient:
    """Queries of one Prometheus. Every method raises RequestFailed, or one of its kinds above."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._most_steps = _MOST_POINTS
        self.warnings: set[str] = set()
        """What Prometheus, or a proxy of several, added to its results: they may be incomplete."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def exists(self, selector: str, start: int, end: int) -> bool:
        """Return whether any series matches in a time range."""
        form = {"match[]": selector, "start": start, "end": end, "limit": 1}
        return bool(await self._get("series", form, list[dict[str, str]]))

    async def query(self, text: str, at_seconds: float | None = None) -> list[InstantValue]:
        """Return every series at a time, now without one."""
        form = {"query": text} if at_seconds is None else {"query": text, "time": at_seconds}
        data = await self._get("query", form, _Instants)
        return [InstantValue(series.metric, _number(series.value[1])) for series in data.result]

    async def query_range(self, text: str, steps: range) -> list[tuple[Labels, list[tuple[float, float]]]]:
        """Return labels and points of every series over steps, which are Unix seconds.

        A query that reads more than Prometheus allows is divided, down to an hour.
        """
        least = max(1, _SHORTEST_SECONDS // steps.step)
        points: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        first = 0
        while first < len(steps):
            part = steps[first : first + self._most_steps]
            form = {"query": text, "start": part[0], "end": part[-1], "step": part.step}
            try:
                data = await self._get("query_range", form, _Ranges)
            except TooMuchData:
                if len(part) <= least:
                    raise
                self._most_steps = max(len(part) // 2, least)
                continue
            margin = part.step / 2
            for series in data.result:
                points.setdefault(tuple(sorted(series.metric.items())), []).extend(
                    (at, _number(value)) for at, value in series.values if part[0] - margin < at < part[-1] + margin
                )
            first += len(part)
        return [(dict(labels), values) for labels, values in points.items()]

    async def _get(self, path: str, form: Mapping[str, Any], type_: type[DataT]) -> DataT:
        shown = self._client.shown
        try:
            reply = await self._client.send("POST", f"/api/v1/{path}", accept=None, data=form)
            if reply.status_code in _USE_GET:
                reply = await self._client.send("GET", f"/api/v1/{path}", accept=None, params=form)
        except AnswerTooLarge as error:
            raise TooMuchData(str(error)) from None
        if reply.status_code in _REFUSED:
            raise CredentialsRefused(f"{shown} refused the credentials: {reply.status_code}")
        try:
            answer = msgspec.json.decode(reply.content, type=_Answer)
            if answer.status != "success":
                self._refuse(answer, reply.status_code, form)
            data = msgspec.json.decode(answer.data, type=type_)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise RequestFailed(
                f"{shown} returned {reply.status_code} and no result of Prometheus; check the address"
            ) from None
        self.warnings.update(text[:_LONGEST_TEXT] for text in answer.warnings if not text.startswith(_HINT))
        return data

    def _refuse(self, answer: _Answer, status: int, form: Mapping[str, Any]) -> None:
        kind, text, shown = answer.error_type, one_line(answer.error), self._client.shown
        if kind == "bad_data":
            raise BadQuery(f"{shown} rejects {form.get('query', form.get('match[]'))}: {text}")
        if kind == "timeout" or _TOO_MUCH.search(text):
            raise TooMuchData(f"{shown}: too much data for one query: {text}")
        raise RequestFailed(f"{shown} returned {status}: {kind}: {text}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def selector(metric: str, *matchers: str) -> str:
    """Return the selector of the series of a metric; empty matchers are left out."""
    inner = ",".join(filter(None, matchers))
    return f"{metric}{{{inner}}}" if inner else metric


def label_values(values: Sequence[InstantValue], label: str) -> list[str]:
    """Return the values of a label, sorted, each once."""
    return sorted({value.labels[label] for value in values if label in value.labels})

"""Client of the HTTP API of Prometheus: instant and range queries, with errors that name the fix.

The token is read from a file and is part of no message. Redirects are not followed, so it is never sent elsewhere.
"""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import httpx2
import msgspec
import numpy as np

from koordctl.backtest.time_range import TimeRange
from koordlet.prediction.buckets import FloatArray

_MOST_POINTS: Final = 10_000  # Prometheus refuses more than 11,000 points a series
_SHORTEST_SECONDS: Final = 3600
_LONGEST_TEXT: Final = 300
_TOO_MUCH: Final = re.compile(r"too many samples|exceeded|max(imum)? number|limit", re.IGNORECASE)
_HINT: Final = "PromQL info"
"""Begin of a hint about a query, which some versions return as a warning."""
DataT = TypeVar("DataT")
_USER_INFO: Final = re.compile(r"//[^/@]*@")


class CannotRead(Exception):
    """Prometheus did not answer, or refused; the text names the address, what was seen and the fix."""


class BadQuery(Exception):
    """Prometheus does not accept a query: a selector or a metric name of the user is wrong."""


class _TooMuch(Exception):
    """A query reads more than Prometheus allows; the text is its answer."""


class _Result(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str] = (0.0, "nan")
    values: list[tuple[float, str]] = []


class _Results(msgspec.Struct):
    result: list[_Result]


class _Reply(msgspec.Struct, rename={"error_type": "errorType"}):
    status: Literal["success", "error"]
    data: msgspec.Raw = msgspec.Raw(b"null")
    error_type: str = ""
    error: str = ""
    warnings: list[str] = []


class Series(NamedTuple):
    """One series of an answer; `values` is (steps,), NaN where there is none."""

    labels: Mapping[str, str]
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
        return _USER_INFO.sub("//", self.url)


class Prometheus:
    """Connection to one Prometheus; close it after use."""

    def __init__(self, server: Server) -> None:
        self._server = server
        try:
            verify: ssl.SSLContext | bool = (
                ssl.create_default_context(cafile=str(server.ca_file)) if server.ca_file else True
            )
        except (OSError, ssl.SSLError) as error:
            raise CannotRead(f"--ca-file {server.ca_file}: {error}; want a PEM file of certificates") from None
        self.warnings: set[str] = set()
        """What Prometheus, or a proxy of several, added to its results: they may be incomplete."""
        self._most_steps = _MOST_POINTS
        self._client = httpx2.Client(verify=verify, timeout=server.timeout_seconds, follow_redirects=False)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def exists(self, selector: str, time_range: TimeRange) -> bool:
        """Return whether any series matches in the time range. Raises CannotRead and BadQuery."""
        asked = {"match[]": selector, "start": time_range.start, "end": time_range.end, "limit": 1}
        return bool(self._get_once("series", asked, list[dict[str, str]]))

    def instant(self, query: str, at_seconds: float) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of every series at a time. Raises CannotRead and BadQuery."""
        data = self._get_once("query", {"query": query, "time": at_seconds}, _Results)
        return [(each.metric, _number(each.value[1])) for each in data.result]

    def range(self, query: str, time_range: TimeRange) -> list[Series]:
        """Return every series over the steps of a range. Raises CannotRead and BadQuery.

        A query that reads more than Prometheus allows is divided, down to an hour.
        """
        least = max(1, _SHORTEST_SECONDS // time_range.step_seconds)
        found: dict[tuple[tuple[str, str], ...], FloatArray] = {}
        first = 0
        while first < time_range.steps:
            part = time_range.part(first, min(self._most_steps, time_range.steps - first))
            asked = {"query": query, "start": part.start, "end": part.end, "step": part.step_seconds}
            try:
                data = self._get("query_range", asked, _Results)
            except _TooMuch as error:
                if part.steps <= least:
                    raise self._too_much(error) from None
                self._most_steps = max(part.steps // 2, least)
                continue
            for each in data.result:
                values = found.setdefault(tuple(sorted(each.metric.items())), np.full(time_range.steps, np.nan))
                points = np.array([(at, _number(value)) for at, value in each.values]).reshape(-1, 2)
                steps = np.rint((points[:, 0] - time_range.start) / time_range.step_seconds).astype(int)
                inside = (steps >= first) & (steps < first + part.steps)
                values[steps[inside]] = points[inside, 1]
            first += part.steps
        return [Series(dict(labels), values) for labels, values in found.items()]

    def _get_once(self, path: str, parameters: Mapping[str, Any], type_: type[DataT]) -> DataT:
        try:
            return self._get(path, parameters, type_)
        except _TooMuch as error:
            raise self._too_much(error) from None

    def _get(self, path: str, parameters: Mapping[str, Any], type_: type[DataT]) -> DataT:
        shown = self._server.shown
        try:
            reply = self._client.post(
                f"{self._server.url.rstrip('/')}/api/v1/{path}", data=dict(parameters), headers=self._headers()
            )
        except httpx2.TimeoutException:
            raise CannotRead(
                f"{shown} did not respond within {self._server.timeout_seconds:g} s; "
                "raise --timeout, or read less with --nodes or a longer --step"
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            text = f"{shown} cannot be reached: {type(error).__name__}: {_USER_INFO.sub('//', str(error))}"
            raise CannotRead(f"{text}; check --prometheus and --ca-file") from None
        if reply.status_code in (401, 403):
            raise CannotRead(
                f"{shown} refused the credentials: {reply.status_code}; give a token that may query with --token-file"
            )
        try:
            body = msgspec.json.decode(reply.content, type=_Reply)
            if body.status != "success":
                self._refuse(body.error_type, body.error[:_LONGEST_TEXT], parameters)
            data = msgspec.json.decode(body.data, type=type_)
        except msgspec.DecodeError:
            raise CannotRead(
                f"{shown} returned {reply.status_code} and no result of Prometheus; check the address"
            ) from None
        self.warnings.update(each[:_LONGEST_TEXT] for each in body.warnings if not each.startswith(_HINT))
        return data

    def _refuse(self, kind: str, text: str, parameters: Mapping[str, Any]) -> None:
        query = parameters.get("query", parameters.get("match[]"))
        if kind == "bad_data":
            raise BadQuery(f"{self._server.shown} rejects {query}: {text}; check --selector and the metric names")
        if kind == "timeout" or _TOO_MUCH.search(text):
            raise _TooMuch(text)
        raise CannotRead(f"{self._server.shown} failed: {kind}: {text}")

    def _too_much(self, error: _TooMuch) -> CannotRead:
        return CannotRead(
            f"{self._server.shown}: too much data for one query: {error}; raise "
            "--query.max-samples and --query.timeout of Prometheus, or read less with --selector or a longer --step"
        )

    def _headers(self) -> dict[str, str]:
        if self._server.token_file is None:
            return {}
        try:
            token = self._server.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not text"
            raise CannotRead(f"--token-file {self._server.token_file}: {reason}; want a readable file") from None
        if not token.isascii() or not token.isprintable():
            raise CannotRead(f"--token-file {self._server.token_file}: want one line of printable ASCII")
        return {"Authorization": f"Bearer {token}"}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def names_of(found: Sequence[tuple[Mapping[str, str], float]], label: str) -> list[str]:
    """Return the values of a label, sorted, each once."""
    return sorted({labels[label] for labels, _ in found if label in labels})

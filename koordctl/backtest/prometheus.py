"""Client of the HTTP API of Prometheus: instant and range queries, with errors that name the fix.

The token is read from a file and is part of no message. Redirects are not followed, so it is never sent elsewhere.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import msgspec
import numpy as np

from koordlet.prediction.buckets import FloatArray

_MOST_POINTS: Final = 10_000  # Prometheus refuses more than 11,000 points a series
_LONGEST_TEXT: Final = 300
_USER_INFO: Final = re.compile(r"//[^/@]*@")


class CannotRead(Exception):
    """Prometheus did not answer, or refused; the text names the address, what was seen and the fix."""


class BadQuery(Exception):
    """Prometheus does not accept a query: a selector or a metric name of the user is wrong."""


class TimeRange(NamedTuple):
    """Steps of a back-test: `start` is the first, Unix seconds."""

    start: int
    step_seconds: int
    steps: int

    @property
    def end(self) -> int:
        """Time of the last step."""
        return self.start + (self.steps - 1) * self.step_seconds


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
        self._client = httpx2.Client(verify=verify, timeout=server.timeout_seconds, follow_redirects=False)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def exists(self, selector: str, time_range: TimeRange) -> bool:
        """Return whether any series matches in the time range. Raises CannotRead and BadQuery."""
        data = self._get("series", {"match[]": selector, "start": time_range.start, "end": time_range.end, "limit": 1})
        return bool(data)

    def instant(self, query: str, at_seconds: float) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of every series at a time. Raises CannotRead and BadQuery."""
        data = self._get("query", {"query": query, "time": at_seconds})
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    def range(self, query: str, time_range: TimeRange) -> list[Series]:
        """Return every series over the steps of a range. Raises CannotRead and BadQuery."""
        found: dict[tuple[tuple[str, str], ...], FloatArray] = {}
        for first in range(0, time_range.steps, _MOST_POINTS):
            last = min(first + _MOST_POINTS, time_range.steps) - 1
            start, end = (time_range.start + each * time_range.step_seconds for each in (first, last))
            data = self._get(
                "query_range", {"query": query, "start": start, "end": end, "step": time_range.step_seconds}
            )
            for each in data["result"]:
                values = found.setdefault(tuple(sorted(each["metric"].items())), np.full(time_range.steps, np.nan))
                points = np.array([(at, float(value)) for at, value in each["values"]])
                steps = np.rint((points[:, 0] - time_range.start) / time_range.step_seconds).astype(int)
                values[steps] = points[:, 1]
        return [Series(dict(labels), values) for labels, values in found.items()]

    def _get(self, path: str, parameters: Mapping[str, Any]) -> Any:
        shown = self._server.shown
        try:
            reply = self._client.post(
                f"{self._server.url.rstrip('/')}/api/v1/{path}", data=dict(parameters), headers=self._headers()
            )
        except httpx2.TimeoutException:
            raise CannotRead(
                f"{shown} did not respond within {self._server.timeout_seconds:g} s; "
                "raise --timeout, or read less with a shorter --from and --to"
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            text = f"{shown} cannot be reached: {type(error).__name__}: {_USER_INFO.sub('//', str(error))}"
            raise CannotRead(f"{text}; check --prometheus and --ca-file") from None
        if reply.status_code in (401, 403):
            raise CannotRead(
                f"{shown} refused the credentials: {reply.status_code}; give a token that may query with --token-file"
            )
        try:
            body = msgspec.json.decode(reply.content)
        except msgspec.DecodeError:
            body = None
        if not isinstance(body, dict) or "status" not in body:
            raise CannotRead(f"{shown} returned {reply.status_code} and no result of Prometheus; check the address")
        if body["status"] != "success":
            self._refuse(str(body.get("errorType")), str(body.get("error"))[:_LONGEST_TEXT], parameters)
        return body["data"]

    def _refuse(self, kind: str, text: str, parameters: Mapping[str, Any]) -> None:
        query = parameters.get("query", parameters.get("match[]"))
        if "too many samples" in text or "exceeded maximum" in text or kind == "timeout":
            raise CannotRead(
                f"{self._server.shown}: too much data for one query: {text}; use a longer --step or a shorter --from"
            )
        if kind == "bad_data":
            raise BadQuery(f"{self._server.shown} rejects {query}: {text}; check --selector and the metric names")
        raise CannotRead(f"{self._server.shown} failed: {kind}: {text}")

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


def names_of(found: Sequence[tuple[Mapping[str, str], float]], label: str) -> list[str]:
    """Return the values of a label, sorted, each once."""
    return sorted({labels[label] for labels, _ in found if label in labels})

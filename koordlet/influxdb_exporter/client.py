"""InfluxDB 2 as the destination of the history, through influxdb-client. Imported only where it is switched on.

Everything is explicit that the client leaves to defaults: one connection, whole milliseconds, no retries below us (the
writer has its own), TLS always verified. Redirects are not followed, so the token goes to no other server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from influxdb_client import InfluxDBClient, WriteService
from influxdb_client.rest import ApiException
from urllib3 import exceptions as transport

from koordlet.influxdb_exporter.writer import Failure, WriteFailed

_NO_CONTENT: Final = 204
_FAILURE_OF_STATUS: Final = {
    400: Failure.REFUSED,
    401: Failure.UNAUTHORIZED,
    403: Failure.UNAUTHORIZED,
    404: Failure.NOT_FOUND,
    413: Failure.REFUSED,
    422: Failure.REFUSED,
    429: Failure.OVERLOADED,
    503: Failure.OVERLOADED,
}
_LONGEST_TEXT: Final = 300


@dataclass(frozen=True, slots=True)
class Target:
    """A bucket and how to reach it. `ca_file` empty means the certificate authorities of the system."""

    url: str
    org: str
    bucket: str
    token_file: str
    ca_file: str = ""


class InfluxDb:
    """A `Destination`. The token is read before each write: a rotated Secret is followed. One thread uses it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._token = ""
        self._client: InfluxDBClient | None = None

    def write(self, lines: Sequence[str], timeout_ms: int) -> None:
        """Write points; see `Destination`."""
        target = self._target
        service = WriteService(self._connected(_token(target.token_file), timeout_ms).api_client)
        try:
            _, status, _ = service.post_write_with_http_info(
                target.org,
                target.bucket,
                "\n".join(lines).encode(),
                precision="s",
                content_type="text/plain; charset=utf-8",
                _request_timeout=timeout_ms,
            )
        except ApiException as error:
            raise self._refusal(error) from error
        except transport.HTTPError as error:
            raise _no_answer(target.url, timeout_ms, error) from error
        if status != _NO_CONTENT:
            text = f"{target.url} answered {status}, want {_NO_CONTENT}: is this an InfluxDB 2?"
            raise WriteFailed(Failure.UNEXPECTED, text)

    def _connected(self, token: str, timeout_ms: int) -> InfluxDBClient:
        if self._client is None or token != self._token:
            if self._client is not None:
                self._client.close()
            target = self._target
            if target.ca_file and not Path(target.ca_file).is_file():
                raise WriteFailed(Failure.CREDENTIALS, f"{target.ca_file} is no file, want certificates (PEM)")
            self._client = InfluxDBClient(
                url=target.url,
                token=token,
                org=target.org,
                timeout=timeout_ms,
                retries=False,
                connection_pool_maxsize=1,
                verify_ssl=True,
                ssl_ca_cert=target.ca_file or None,
            )
            self._token = token
        return self._client

    def _refusal(self, error: ApiException) -> WriteFailed:
        """What a status means, and what to do about it. Headers are never shown: ours carry the token."""
        target, status = self._target, error.status
        if not status:  # how the client reports a failed handshake
            return WriteFailed(Failure.UNREACHABLE, f"{target.url}: {_one_line(error.reason)}")
        failure = _FAILURE_OF_STATUS.get(status, Failure.SERVER_ERROR if status >= 500 else Failure.UNEXPECTED)
        way_out = {
            Failure.UNAUTHORIZED: f"; want in {target.token_file} a token that may write to bucket {target.bucket!r}"
            f" of org {target.org!r}; points wait",
            Failure.NOT_FOUND: f"; want bucket {target.bucket!r} in org {target.org!r}; points wait",
            Failure.REFUSED: "; these points are dropped",
        }.get(failure, "; points wait")
        text = f"{target.url} answered {status}: {_one_line(error.message)}{way_out}"
        return WriteFailed(failure, text, _retry_after_seconds(error))


def _no_answer(url: str, timeout_ms: int, error: transport.HTTPError) -> WriteFailed:
    """A refused connection counts among urllib3's time-outs, and is none."""
    if isinstance(error, transport.TimeoutError) and not isinstance(error, transport.NewConnectionError):
        return WriteFailed(Failure.TIMEOUT, f"{url} did not answer within {timeout_ms} ms")
    return WriteFailed(Failure.UNREACHABLE, f"{url} cannot be reached: {_one_line(error)}")


def _token(file: str) -> str:
    """The token in a file. It is never part of an error's text."""
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise WriteFailed(Failure.CREDENTIALS, f"cannot read the token in {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise WriteFailed(Failure.CREDENTIALS, f"{file} holds no token, want one word of ASCII")
    return token


def _retry_after_seconds(error: ApiException) -> float:
    """Seconds the server asks us to wait; a date, which is rare, counts as no wish."""
    wish = str(error.retry_after or "")
    return float(wish) if wish.isdecimal() else 0.0


def _one_line(text: object) -> str:
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return " ".join(str(text).split())[:_LONGEST_TEXT]

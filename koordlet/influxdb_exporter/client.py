"""Client of InfluxDB 2, through influxdb-client. Imported only where the exporter is enabled.

All defaults of the client are set explicitly: one connection, whole milliseconds, no retries (the writer retries), TLS
always verified. Redirects are not followed, so the token reaches no other server.
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
class InfluxDbTarget:
    """A bucket and its address. An empty `ca_file` selects the certificate authorities of the system."""

    url: str
    org: str
    bucket: str
    token_file: str
    ca_file: str = ""


class InfluxDb:
    """A `Destination`. Reads the token before each write, so a rotated Secret takes effect. One thread uses it."""

    def __init__(self, target: InfluxDbTarget) -> None:
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
            text = f"{target.url} returned status {status}, want {_NO_CONTENT}; check that it is an InfluxDB 2"
            raise WriteFailed(Failure.UNEXPECTED, text)

    def _connected(self, token: str, timeout_ms: int) -> InfluxDBClient:
        if self._client is None or token != self._token:
            if self._client is not None:
                self._client.close()
            target = self._target
            if target.ca_file and not Path(target.ca_file).is_file():
                raise WriteFailed(Failure.CREDENTIALS, f"{target.ca_file} is not a file, want certificates (PEM)")
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
        """Return the failure for a status, with the fix. Headers are never logged: they have the token."""
        target, status = self._target, error.status
        if not status:  # a failed handshake
            return WriteFailed(Failure.UNREACHABLE, f"{target.url}: {_one_line(error.reason)}")
        failure = _FAILURE_OF_STATUS.get(status, Failure.SERVER_ERROR if status >= 500 else Failure.UNEXPECTED)
        fix = {
            Failure.UNAUTHORIZED: f"; {target.token_file} needs a token that may write to bucket {target.bucket!r}"
            f" of org {target.org!r}; points stay queued",
            Failure.NOT_FOUND: f"; create bucket {target.bucket!r} in org {target.org!r}; points stay queued",
            Failure.REFUSED: "; these points are dropped",
        }.get(failure, "; points stay queued")
        text = f"{target.url} returned status {status}: {_one_line(error.message)}{fix}"
        seconds = str(error.retry_after or "")  # a date, which is rare, counts as none
        return WriteFailed(failure, text, float(seconds) if seconds.isdecimal() else 0.0)


def _no_answer(url: str, timeout_ms: int, error: transport.HTTPError) -> WriteFailed:
    """Return the failure for a request without a response. urllib3's timeouts include refused connections."""
    if isinstance(error, transport.TimeoutError) and not isinstance(error, transport.NewConnectionError):
        return WriteFailed(Failure.TIMEOUT, f"{url} did not respond within {timeout_ms} ms")
    return WriteFailed(Failure.UNREACHABLE, f"{url} cannot be reached: {_one_line(error)}")


def _token(file: str) -> str:
    """Return the token in a file. It is never part of an error's text."""
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise WriteFailed(Failure.CREDENTIALS, f"cannot read the token in {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise WriteFailed(Failure.CREDENTIALS, f"{file} has no token, want one word of ASCII")
    return token


def _one_line(text: object) -> str:
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return " ".join(str(text).split())[:_LONGEST_TEXT]

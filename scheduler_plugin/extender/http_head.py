"""Parse the head of an HTTP/1.1 request: the part of RFC 9112 that a client of the extender uses. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

MAX_HEAD_BYTES: Final = 16 * 1024
HEAD_END: Final = b"\r\n\r\n"
_ONCE: Final = ("content-length", "host")


class BadHead(Exception):
    """A request whose end is unknown, or whose body is refused; the message is for the client."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Head(NamedTuple):
    """What the server needs of a head."""

    method: str
    path: str
    body_bytes: int
    keep_alive: bool
    expects_continue: bool


def parse(head: bytes, max_body_bytes: int) -> Head:
    """Parse a head without its end. Raises BadHead."""
    if b"\0" in head:
        raise BadHead(HTTPStatus.BAD_REQUEST, "the head contains a NUL byte")
    request_line, *lines = head.decode("latin-1").split("\r\n")
    parts = request_line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadHead(HTTPStatus.BAD_REQUEST, f"got request line {request_line[:100]!r}, want HTTP/1.1")
    headers = _headers(lines)
    if parts[2] != "HTTP/1.0" and "host" not in headers:
        raise BadHead(HTTPStatus.BAD_REQUEST, "got no Host header, want one")
    tokens = {token.strip() for token in headers.get("connection", "").lower().split(",")}
    return Head(
        method=parts[0],
        path=_path(parts[1]),
        body_bytes=_body_bytes(parts[0], headers, max_body_bytes),
        keep_alive="close" not in tokens and (parts[2] != "HTTP/1.0" or "keep-alive" in tokens),
        expects_continue=headers.get("expect", "").lower() == "100-continue",
    )


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip()
        is_malformed = not colon or name != name.strip() or not name
        if is_malformed or (name in _ONCE and headers.get(name, value) != value):
            raise BadHead(HTTPStatus.BAD_REQUEST, f"header {line[:100]!r} is malformed or contradicts another")
        headers[name] = value
    return headers


def _path(target: str) -> str:
    """Return the path of a target in origin form (/filter) or absolute form (http://host/filter)."""
    try:
        return urlsplit(target).path if "://" in target else target.partition("?")[0]
    except ValueError as error:
        raise BadHead(HTTPStatus.BAD_REQUEST, f"got target {target[:100]!r}, want a path") from error


def _body_bytes(method: str, headers: dict[str, str], max_body_bytes: int) -> int:
    text = headers.get("content-length")
    if "transfer-encoding" in headers or (text is None and method == "POST"):
        raise BadHead(HTTPStatus.LENGTH_REQUIRED, "want a body with Content-Length")
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadHead(HTTPStatus.BAD_REQUEST, f"got Content-Length {text[:100]!r}, want a number of bytes")
    if int(text) > max_body_bytes:
        raise BadHead(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"got a body of {text} bytes, want at most {max_body_bytes}: set nodeCacheCapable: true for this extender "
            "in the KubeSchedulerConfiguration, so that node names are sent instead of whole nodes",
        )
    return int(text)

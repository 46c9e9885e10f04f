"""Define the errors of this package. Callers see no other exception of it.

Each is an ApiServerError. Its text names the server or the call, and the exception of the library underneath is chained
as `__cause__`. Any of them has `retry_after_seconds` where the server asks the client to wait: callers wait no shorter.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

LONGEST_RETRY_AFTER_SECONDS = 60.0
"""An apiserver sends a Retry-After of seconds; a longer one is from a proxy in front of it, and is capped."""


class ApiServerError(Exception):
    """Base of all errors of this package."""

    retry_after_seconds: float | None = None
    """Time that the server asks to wait before the next attempt, of whatever verb; None where it asks for none."""


class NoCredentials(ApiServerError):
    """No credentials, or an invalid kubeconfig; names the sources that were tried."""


class Unreachable(ApiServerError):
    """The server gave no answer, or the connection broke before the answer was complete."""


class Untrusted(Unreachable):
    """Server and client could not agree on TLS: wrong CA, wrong host name, client certificate refused."""


class WatchTimeout(Unreachable):
    """The peer of a watch sent nothing for longer than a working apiserver would."""


class NotLeader(ApiServerError):
    """A write that was not sent, because this process may not write now."""


class DecodeError(ApiServerError):
    """An answer that does not have the expected type."""


class TooLarge(DecodeError):
    """An answer of more bytes than the caller reads at once; the rest was not received."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request in the terms of HTTP and of RBAC (`resource` is "nodes/status", `verb` is "patch")."""

    method: str
    path: str
    verb: str
    resource: str
    group: str = ""

    def __str__(self) -> str:
        """Return the text for error messages."""
        return f"{self.method} {self.path}"


class StatusCause(msgspec.Struct, frozen=True):
    """Fault of one field of a rejected object."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusError(ApiServerError):
    """The apiserver answered, with an error."""

    def __init__(self, call: Call, status: int, answer: ApiStatus, retry_after_seconds: float | None) -> None:
        self.call = call
        self.status = status
        self.reason = answer.reason
        self.server_message = " ".join(answer.message.split())
        self.causes = answer.details.causes
        if retry_after_seconds is not None:
            self.retry_after_seconds = min(max(retry_after_seconds, 0.0), LONGEST_RETRY_AFTER_SECONDS)
        text = ": ".join(part for part in (f"{status} {self.reason}".strip(), self.server_message) if part)
        fix = self.fix()
        super().__init__(f"{call}: {text}" + (f"; {fix}" if fix else ""))

    def fix(self) -> str:
        """Return the fix for the operator; empty where the message is complete."""
        return ""


class Unauthorized(StatusError):
    """401: the apiserver does not accept the credentials."""

    def fix(self) -> str:
        """Return the likely cause."""
        return "the token or certificate has expired or belongs to another cluster"


class Forbidden(StatusError):
    """403: the credentials lack the permission."""

    def fix(self) -> str:
        """Return the missing RBAC rule."""
        return (
            f"grant it by RBAC (verbs: [{self.call.verb}], resources: [{self.call.resource}], "
            f'apiGroups: ["{self.call.group}"]), or an admission policy refused it'
        )


class NotFound(StatusError):
    """404: the object does not exist."""


class UnknownResource(StatusError):
    """404: the apiserver does not serve this type at all. No NotFound: creating missing objects does not help here."""

    def fix(self) -> str:
        """Return the CRD to install."""
        plural = self.call.resource.partition("/")[0]
        name = f"{plural}.{self.call.group}" if self.call.group else plural
        return f"the apiserver does not serve {name}: install its CRD (the chart does, value crds.install)"


class Conflict(StatusError):
    """409: the object was changed since it was read."""


class AlreadyExists(StatusError):
    """409: an object of this name exists."""


class Gone(StatusError):
    """410: the resource version or the continue token has expired."""


class Invalid(StatusError):
    """422: the object breaks the schema or a validation rule."""


class Throttled(StatusError):
    """429: the apiserver is overloaded."""


class ServerError(StatusError):
    """5xx: the apiserver failed, or a proxy in front of it."""


class Details(msgspec.Struct, rename="camel", frozen=True):
    """Object, causes and delay of a Status."""

    name: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: float | None = None


class ApiStatus(msgspec.Struct, frozen=True):
    """A `v1.Status`, the error document of the apiserver."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details = Details()


_BY_REASON: dict[str, type[StatusError]] = {"AlreadyExists": AlreadyExists, "Expired": Gone}
_BY_STATUS: dict[int, type[StatusError]] = {
    401: Unauthorized,
    403: Forbidden,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}
LONGEST_FOREIGN_TEXT = 300
"""Characters of an answer that is not a Status: enough to recognise the error page of a proxy."""


def refusal(call: Call, status: int, body: bytes, retry_after: str = "") -> StatusError:
    """Convert an answer with an error status to its exception. `retry_after` is the header of that name."""
    try:
        answer = msgspec.json.decode(body, type=ApiStatus)
    except (msgspec.DecodeError, RecursionError):
        answer = ApiStatus(message=body[:LONGEST_FOREIGN_TEXT].decode(errors="replace"))
    return read_refusal(call, status, answer, retry_after)


def read_refusal(call: Call, status: int, answer: ApiStatus, retry_after: str = "") -> StatusError:
    """Convert a Status to its exception: an ERROR event of a watch has one without an HTTP answer."""
    kind = _BY_REASON.get(answer.reason) or _BY_STATUS.get(status)
    if kind is None and status == 404:
        # A missing object is named in the details; a missing type is not (or the answer is not a Status).
        kind = NotFound if answer.details.name else UnknownResource
    if kind is None:
        kind = ServerError if status >= 500 else StatusError
    wait = float(retry_after) if retry_after.isdecimal() else answer.details.retry_after_seconds
    return kind(call, status, answer, wait)

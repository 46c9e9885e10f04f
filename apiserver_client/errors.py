"""Everything that can go wrong between us and the kube-apiserver. Callers see no other exception of this package.

```
ApiServerError
+-- NoCredentials       nothing to log in with, or a broken kubeconfig; names what was tried
+-- Unreachable         no answer: refused, timed out, connection lost; names the server
|   +-- Untrusted       TLS failed: wrong CA, wrong host name, client certificate refused
|   +-- Silent          a watch whose peer sent nothing for too long
+-- NotLeader            we may not write now: nothing was sent
+-- DecodeError      an answer that is not the JSON asked for; names the field
+-- Refused             the apiserver answered with an error: `status`, `reason`, `server_message`, `causes`
    +-- BadRequest      400
    +-- Unauthorized    401
    +-- Forbidden       403, names the verb and the resource to grant
    +-- NotFound        404, this object does not exist
    +-- UnknownResource 404, the type itself does not exist: the CRD is not installed. Not a NotFound on purpose:
    |                   who creates what is missing must not try it here
    +-- Conflict        409, somebody else wrote in between
    +-- AlreadyExists   409 on create
    +-- Gone            410, the resource version or continue token has expired: list again
    +-- Invalid         422, `causes` holds what the apiserver says of each field
    +-- Throttled       429, `retry_after_seconds` where the apiserver gave it
    +-- ServerError     5xx
```

The exception of the library underneath is chained as `__cause__`.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class ApiServerError(Exception):
    """Anything between us and the kube-apiserver."""


class NoCredentials(ApiServerError):
    """Nothing to log in with, or a kubeconfig that is broken."""


class Unreachable(ApiServerError):
    """The server gave no answer, or the connection broke before the answer was complete."""


class Untrusted(Unreachable):
    """Server and client could not agree on TLS."""


class WatchTimeout(Unreachable):
    """The peer of a watch sent nothing for longer than a living apiserver would."""


class NotLeader(ApiServerError):
    """A write that was not sent, because the session's owner said that it may not write now."""


class DecodeError(ApiServerError):
    """An answer that does not have the shape asked for."""


@dataclass(frozen=True, slots=True)
class Call:
    """What was asked, in the words of HTTP and in those of RBAC (`resource` is "nodes/status", `verb` "patch")."""

    method: str
    path: str
    verb: str
    resource: str
    group: str = ""

    def __str__(self) -> str:
        """As error messages name it."""
        return f"{self.method} {self.path}"


class Cause(msgspec.Struct, frozen=True):
    """What the apiserver says of one field of an object it refused."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusError(ApiServerError):
    """The apiserver answered, with an error."""

    def __init__(self, call: Call, status: int, answer: Status, retry_after_seconds: float | None) -> None:
        self.call = call
        self.status = status
        self.reason = answer.reason
        self.server_message = " ".join(answer.message.split())
        self.causes = answer.details.causes
        self.retry_after_seconds = retry_after_seconds
        said = ": ".join(part for part in (f"{status} {self.reason}".strip(), self.server_message) if part)
        way_out = self.way_out()
        super().__init__(f"{call}: {said}" + (f"; {way_out}" if way_out else ""))

    def way_out(self) -> str:
        """What the reader can do about it; empty where the message says it all."""
        return ""


class BadRequest(StatusError):
    """400: the request makes no sense to the apiserver."""


class Unauthorized(StatusError):
    """401: the apiserver does not know who we are."""

    def way_out(self) -> str:
        """A token that has expired, or the credentials of another cluster."""
        return "the token or certificate has expired or belongs to another cluster"


class Forbidden(StatusError):
    """403: the apiserver knows us, and we may not."""

    def way_out(self) -> str:
        """Name the rule that is missing."""
        return (
            f"grant it by RBAC (verbs: [{self.call.verb}], resources: [{self.call.resource}], "
            f'apiGroups: ["{self.call.group}"]), or an admission policy refused it'
        )


class NotFound(StatusError):
    """404: the object does not exist."""


class UnknownResource(StatusError):
    """404: the apiserver does not serve this type at all."""

    def way_out(self) -> str:
        """Install the CRD."""
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
    """429: the apiserver has too much to do."""


class ServerError(StatusError):
    """5xx: the apiserver failed, or something in front of it did."""


class Details(msgspec.Struct, rename="camel", frozen=True):
    """The part of a Status that says what it is about."""

    name: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, frozen=True):
    """A `v1.Status`: how the apiserver says no."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details = Details()


_BY_REASON: dict[str, type[StatusError]] = {"AlreadyExists": AlreadyExists, "Expired": Gone}
_BY_STATUS: dict[int, type[StatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}
LONGEST_FOREIGN_TEXT = 300  # characters of an answer that is no Status: enough to recognise a proxy's error page


def refusal(call: Call, status: int, body: bytes, retry_after: str = "") -> StatusError:
    """Turn an answer with an error status into the error it stands for. `retry_after` is the header of that name."""
    try:
        answer = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        answer = Status(message=body[:LONGEST_FOREIGN_TEXT].decode(errors="replace"))
    return refusal_of(call, status, answer, retry_after)


def refusal_of(call: Call, status: int, answer: Status, retry_after: str = "") -> StatusError:
    """Turn a Status into the error it stands for: an ERROR event of a watch carries one without an HTTP answer."""
    kind = _BY_REASON.get(answer.reason) or _BY_STATUS.get(status)
    if kind is None and status == 404:
        # A missing object is named in the details; a missing type is not (or the answer is no Status at all).
        kind = NotFound if answer.details.name else UnknownResource
    if kind is None:
        kind = ServerError if status >= 500 else StatusError
    wait = float(retry_after) if retry_after.isdecimal() else answer.details.retry_after_seconds
    return kind(call, status, answer, wait)

"""Writes in the apiserver's audit log: client, time, target and body."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

WRITES = {"create", "update", "patch", "delete", "deletecollection"}


class Write(NamedTuple):
    """A completed write."""

    at: dt.datetime
    """Time of receipt."""
    user: str
    pod: str
    """Name of the pod that sent it, '' for other clients."""
    agent: str
    """User-Agent."""
    verb: str
    target: str
    """Resource, with its subresource: nodes/status."""
    name: str
    code: int
    body: Any
    """None where the policy does not record it."""


def writes(audit_log: Path, since: dt.datetime, accept: Callable[[Write], bool] = lambda _: True) -> Iterator[Write]:
    """Yield the accepted writes since a time, in the order of their completion."""
    with audit_log.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                return  # the apiserver is still writing it
            event = json.loads(line)
            if event["stage"] == "ResponseComplete" and event["verb"] in WRITES:
                found = _write(event)
                if found.at >= since and accept(found):
                    yield found


def _write(event: dict[str, Any]) -> Write:
    what = event.get("objectRef", {})
    user = event["user"]
    return Write(
        at=dt.datetime.fromisoformat(event["requestReceivedTimestamp"]),
        user=user["username"],
        pod=next(iter(user.get("extra", {}).get("authentication.kubernetes.io/pod-name", ())), ""),
        agent=event.get("userAgent", ""),
        verb=event["verb"],
        target="/".join(filter(None, (what.get("resource"), what.get("subresource")))),
        name=what.get("name", ""),
        code=event["responseStatus"]["code"],
        body=event.get("requestObject"),
    )

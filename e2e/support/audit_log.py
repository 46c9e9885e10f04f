"""The apiserver's audit log, as stories read it: who wrote what, when, and with which body."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

WRITES = {"create", "update", "patch", "delete", "deletecollection"}


class Write(NamedTuple):
    """A write that the apiserver has answered."""

    at: dt.datetime
    """When it was received."""
    user: str
    pod: str
    """Name of the pod that asked, '' for anybody else."""
    agent: str
    """User-Agent."""
    verb: str
    target: str
    """Resource, with its subresource: nodes/status."""
    name: str
    code: int
    body: Any
    """None where the policy does not record it."""


def writes(audit_log: Path, since: dt.datetime, is_ours: Callable[[Write], bool] = lambda _: True) -> Iterator[Write]:
    """Writes since a moment, in the order in which they were answered."""
    with audit_log.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                return  # it is being written
            event = json.loads(line)
            if event["stage"] == "ResponseComplete" and event["verb"] in WRITES:
                found = _write(event)
                if found.at >= since and is_ours(found):
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

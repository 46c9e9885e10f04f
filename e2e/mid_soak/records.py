"""What agent, manager and scheduler did to Mid pods, from the audit log of the API server."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from e2e.mid_soak.checks import Closed
from e2e.support import audit_log
from e2e.support.names import SUITE_NAMESPACE

EVICTION_ANNOTATION = "koordinator.sh/mid-eviction"
_AGENT, _MANAGER = (f"system:serviceaccount:{SUITE_NAMESPACE}:{name}" for name in ("koordlet", "koord-manager"))


class Records(NamedTuple):
    """Times in seconds since 1970."""

    patches: Sequence[float]
    """Patches of pods/resize by the agent, whatever their outcome."""
    evictions: Sequence[float]
    bindings: Mapping[str, float]
    """Name of a Mid pod -> when it was bound."""
    closed: Sequence[Closed]


def read(log: Path, since: dt.datetime, mid_prefix: str) -> Records:
    """Return the records since a time; Mid pods are those whose names have the prefix."""
    patches, evictions, bindings, notes = [], [], {}, []
    for write in audit_log.writes(log, since):
        at, is_done = write.at.timestamp(), write.code < HTTPStatus.BAD_REQUEST
        if write.target == "pods/resize" and write.user == _AGENT:
            patches.append(at)
        elif write.target == "pods/eviction" and write.user == _MANAGER and is_done:
            evictions.append(at)
        elif write.target == "pods/binding" and is_done and write.name.startswith(mid_prefix):
            bindings[write.name] = at
        elif write.target in ("nodes", "nodes/status") and is_done and (note := _note(write.body)) is not None:
            notes.append((at, note))
    return Records(sorted(patches), sorted(evictions), bindings, _closed(sorted(notes)))


def _note(body: Any) -> bool | None:
    """Return whether a patch of a node sets or removes the eviction annotation, None where it does neither."""
    annotations = (body or {}).get("metadata", {}).get("annotations") or {} if isinstance(body, dict) else {}
    return annotations[EVICTION_ANNOTATION] is not None if EVICTION_ANNOTATION in annotations else None


def _closed(notes: Sequence[tuple[float, bool]]) -> list[Closed]:
    found: list[Closed] = []
    since: float | None = None
    for at, is_set in notes:
        if is_set and since is None:
            since = at
        elif not is_set and since is not None:
            found.append(Closed(since, at))
            since = None
    return found if since is None else [*found, Closed(since, math.inf)]

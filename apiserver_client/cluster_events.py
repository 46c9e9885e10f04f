"""Post Kubernetes Events on an object, as `kubectl describe` shows them.

An equal Event raises the count of the first one instead of adding another: its name is derived from the object, the
reason and the message. The apiserver deletes an Event after an hour.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec

from api_types.kubernetes import times
from apiserver_client import errors, objects, resources, session

LONGEST_MESSAGE = 1024  # characters: the apiserver rejects more
_CLUSTER_WIDE_NAMESPACE = "default"  # namespace of the Events of cluster-wide objects


@dataclass(frozen=True, slots=True)
class Subject:
    """Object that an Event refers to."""

    resource: resources.Resource
    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""


class _Counted(msgspec.Struct):
    count: int | None = None


def body(
    subject: Subject,
    *,
    severity: Literal["Normal", "Warning"],
    reason: str,
    message: str,
    reporter: str,
    now: datetime,
) -> dict[str, Any]:
    """Build an Event. `reason` is one CamelCase word, `reporter` the component, `now` has a time zone."""
    if len(message) > LONGEST_MESSAGE:
        message = message[: LONGEST_MESSAGE - 1] + "…"
    about = subject.resource
    identity = (about.kind, subject.namespace, subject.name, subject.uid, severity, reason, message, reporter)
    time = times.format_rfc3339(now)
    namespace = subject.namespace or _CLUSTER_WIDE_NAMESPACE
    reference = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "name": subject.name,
        "namespace": subject.namespace,
        "uid": subject.uid,
        "resourceVersion": subject.resource_version,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name[:200].rstrip('-.')}.{hashlib.sha256(repr(identity).encode()).hexdigest()[:16]}",
            "namespace": namespace,
        },
        "involvedObject": {key: value for key, value in reference.items() if value},
        "type": severity,
        "reason": reason,
        "message": message,
        "source": {"component": reporter},
        "reportingComponent": reporter,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


async def record(api: session.Session, event: dict[str, Any]) -> None:
    """Write an Event made by `body`, or raise the count of the existing one. Raises errors.ApiServerError."""
    name, namespace = event["metadata"]["name"], event["metadata"]["namespace"]
    try:
        await objects.create(api, resources.EVENTS, event, namespace=namespace)
    except errors.AlreadyExists:
        stored = await objects.get(api, resources.EVENTS, name, namespace=namespace, decode=_Counted)
        repeated = {"count": (stored.count or 1) + 1, "lastTimestamp": event["lastTimestamp"]}
        await objects.merge_patch(api, resources.EVENTS, name, repeated, namespace=namespace)

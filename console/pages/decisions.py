"""Page Decisions: why is a pod here, or nowhere? Pure."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from api_types.kubernetes import times
from console.cluster.details import Listed, Records
from console.cluster.wire import PendingPod
from console.pages import numbers, shown
from fleet import wire

_MOST_PODS: Final = 50
_MOST_GROUPS: Final = 20
_MOST_RECORDS: Final = 100
_MOST_NODES: Final = 50
_NAMED: Final = 5
_LONGEST_TEXT: Final = 1_000


def context(
    pending: Listed[PendingPod], events: Listed[wire.WireEvent], records: Records, pod: str, now: dt.datetime
) -> dict[str, Any]:
    """Return the values of the template; `pod` is the filter of the user."""
    wanted = pod[:_LONGEST_TEXT].strip()
    return {
        "q": wanted,
        "pending_count": len(pending.items or ()),
        "pending_unread": pending.items is None,
        "groups": _groups(pending.items or (), now),
        "events": shown.events(
            [each for each in events.items or () if _name(wanted) in each.involved_object.name][:_MOST_PODS], now
        ),
        "events_unread": events.items is None,
        "records_missing": records.missing,
        "records": [_record(each, now) for each in records.recent if wanted in str(each.get("pod", ""))][
            :_MOST_RECORDS
        ],
        "decisions": [_decision(each, now) for each in records.decisions],
        "decisions_of": records.pod,
    }


def _name(key: str) -> str:
    """Return the name in NAMESPACE/NAME."""
    return key.rpartition("/")[2]


def _groups(pods: Sequence[PendingPod], now: dt.datetime) -> list[dict[str, Any]]:
    """Group the pods that wait by the message of the scheduler, the largest group first."""
    groups: dict[tuple[str, str], list[PendingPod]] = defaultdict(list)
    for pod in pods:
        scheduled = next((each for each in pod.status.conditions or () if each.type == "PodScheduled"), None)
        reason = (scheduled.reason if scheduled else None) or "NotTriedYet"
        message = (scheduled.message if scheduled else None) or "no scheduler has reported on it"
        groups[reason, message[:_LONGEST_TEXT]].append(pod)
    ordered = sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))
    return [_group(*key, found, now) for key, found in ordered[:_MOST_GROUPS]]


def _group(reason: str, message: str, pods: Sequence[PendingPod], now: dt.datetime) -> dict[str, Any]:
    created = [times.parse_rfc3339_or_none(pod.metadata.creation_timestamp) for pod in pods]
    oldest = min((each for each in created if each), default=None)
    return {
        "reason": shown.cut(reason),
        "message": message,
        "count": len(pods),
        "age": numbers.age((now - oldest).total_seconds() if oldest else None),
        "schedulers": ", ".join(sorted({shown.cut(pod.spec.scheduler_name) for pod in pods})[:_NAMED]),
        "pods": [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods[:_NAMED]],
        "more": max(len(pods) - _NAMED, 0),
    }


def _record(found: Mapping[str, Any], now: dt.datetime) -> dict[str, Any]:
    return {
        "pod": str(found.get("pod", "")),
        "age": _age(found.get("at"), now),
        "passed": f"{found.get('nodesPassed')} of {found.get('nodesAsked')}",
        "node": str(found.get("node") or ""),
    }


def _decision(found: Mapping[str, Any], now: dt.datetime) -> dict[str, Any]:
    nodes = [each for each in found.get("nodes") or () if isinstance(each, Mapping)]
    return {
        "age": _age(found.get("at"), now),
        "outcome": str(found.get("outcome", "")),
        "passed": f"{found.get('nodesPassed')} of {found.get('nodesAsked')}",
        "nodes": [
            {
                "name": str(each.get("node", "")),
                "result": str(each.get("result", "")),
                "score": each.get("score"),
                "plugin": str(each.get("plugin") or ""),
                "sentence": str(each.get("sentence", ""))[:_LONGEST_TEXT],
            }
            for each in nodes[:_MOST_NODES]
        ],
        "more": max(int(found.get("nodesAsked") or 0) - len(nodes[:_MOST_NODES]), 0),
    }


def _age(at: object, now: dt.datetime) -> str:
    return numbers.age(now.timestamp() - at) if isinstance(at, int | float) else numbers.UNKNOWN

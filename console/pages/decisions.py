"""Page Decisions: why is a pod here, or nowhere? Pure."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from api_types.kubernetes import times
from console.cluster.details import Listed, PendingPod, Records
from console.pages import shown
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
    filter_text = pod[:_LONGEST_TEXT].strip()
    name = filter_text.rpartition("/")[2]
    return {
        "q": filter_text,
        "pending_count": len(pending.items or ()),
        "pending_unread": pending.items is None,
        "pending_left_out": [(shown.cut(unread.what), unread.why[:_LONGEST_TEXT]) for unread in pending.unread],
        "groups": _groups(pending.items or (), now),
        "events": shown.events(
            [event for event in events.items or () if name in event.involved_object.name][:_MOST_PODS], now
        ),
        "events_unread": events.items is None,
        "records_missing": records.missing,
        "records": [_record(record, now) for record in records.recent if filter_text in str(record.get("pod", ""))][
            :_MOST_RECORDS
        ],
        "decisions": [_decision(decision, now) for decision in records.decisions],
        "decisions_of": records.pod,
    }


def _groups(pods: Sequence[PendingPod], now: dt.datetime) -> list[dict[str, Any]]:
    """Group the pods that wait by the message of the scheduler, the largest group first."""
    groups: dict[tuple[str, str], list[PendingPod]] = defaultdict(list)
    for pod in pods:
        scheduled = next(
            (condition for condition in pod.status.conditions or () if condition.type == "PodScheduled"), None
        )
        reason = (scheduled.reason if scheduled else None) or "NotTriedYet"
        message = (scheduled.message if scheduled else None) or "no scheduler has reported on it"
        groups[reason, message[:_LONGEST_TEXT]].append(pod)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [_group(*key, group, now) for key, group in ordered[:_MOST_GROUPS]]


def _group(reason: str, message: str, pods: Sequence[PendingPod], now: dt.datetime) -> dict[str, Any]:
    created = [times.parse_rfc3339_or_none(pod.metadata.creation_timestamp) for pod in pods]
    oldest = min((time for time in created if time), default=None)
    return {
        "reason": shown.cut(reason),
        "message": message,
        "count": len(pods),
        "age": shown.age((now - oldest).total_seconds() if oldest else None),
        "schedulers": ", ".join(sorted({shown.cut(pod.spec.scheduler_name) for pod in pods})[:_NAMED]),
        "pods": [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods[:_NAMED]],
        "more": max(len(pods) - _NAMED, 0),
    }


def _record(record: Mapping[str, Any], now: dt.datetime) -> dict[str, Any]:
    return {
        "pod": str(record.get("pod", "")),
        "age": _age(record.get("at"), now),
        "passed": f"{record.get('nodesPassed')} of {record.get('nodesAsked')}",
        "node": str(record.get("node") or ""),
    }


def _decision(decision: Mapping[str, Any], now: dt.datetime) -> dict[str, Any]:
    nodes = [row for row in decision.get("nodes") or () if isinstance(row, Mapping)]
    return {
        "age": _age(decision.get("at"), now),
        "outcome": str(decision.get("outcome", "")),
        "passed": f"{decision.get('nodesPassed')} of {decision.get('nodesAsked')}",
        "nodes": [
            {
                "name": str(row.get("node", "")),
                "result": str(row.get("result", "")),
                "score": row.get("score"),
                "plugin": str(row.get("plugin") or ""),
                "sentence": str(row.get("sentence", ""))[:_LONGEST_TEXT],
            }
            for row in nodes[:_MOST_NODES]
        ],
        "more": max(int(decision.get("nodesAsked") or 0) - len(nodes[:_MOST_NODES]), 0),
    }


def _age(at: object, now: dt.datetime) -> str:
    return shown.age(now.timestamp() - at) if isinstance(at, int | float) else shown.UNKNOWN

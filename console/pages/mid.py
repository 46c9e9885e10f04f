"""Page Mid: how much there is, who has it, and where it was taken away. Pure."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from console.cluster.details import Listed
from console.history.memory import History
from console.pages import numbers, shown
from console.pages.shown import part
from console.seen import Seen
from fleet import wire
from fleet.node_state import percent
from fleet.pod_state import NamespaceState
from manager.mid_resource.eviction.messages import EVICTED
from manager.mid_resource.reasons import REDUCED, STATUS, Reason, Status

_MOST_POINTS: Final = 120
_MOST_EVENTS: Final = 50
_MOST_NAMESPACES: Final = 50
TAKEN: Final = frozenset({REDUCED, EVICTED, *(each for each in Reason if STATUS[each] is Status.WITHDRAWN)})
"""Reasons of Events about Mid that was taken away."""


def context(
    seen: Seen,
    history: History,
    events: Listed[wire.WireEvent],
    sums: Listed[NamespaceState],
    now: dt.datetime,
) -> dict[str, Any]:
    """Return the values of the template."""
    nodes = seen.nodes
    mid, requested, used = (seen.totals[name] for name in ("mid", "mid_requests", "mid_used"))
    states = Counter(shown.mid_sign(node)[:3] for node in nodes)
    points = history.fleet_points("cpu")
    listed = sorted(sums.items or (), key=lambda each: (-(each.mid_held.cpu or 0), each.name))
    return {
        "headline": f"{numbers.cores(mid.cpu)} cores and {numbers.gib(mid.memory)} GiB of Mid on {len(nodes):,} nodes",
        "totals": [
            ("CPU", "cores", *_shares(mid.cpu, requested.cpu, used.cpu, "cpu")),
            ("Memory", "GiB", *_shares(mid.memory, requested.memory, used.memory, "memory")),
        ],
        "points": shown.thinned(points, _MOST_POINTS),
        "states": sorted(states.items(), key=lambda each: -each[1]),
        "events": shown.events([each for each in events.items or () if each.reason in TAKEN][:_MOST_EVENTS], now),
        "events_unread": events.items is None,
        "namespaces": _namespaces(listed[:_MOST_NAMESPACES], requested.cpu),
        "more_namespaces": max(len(listed) - _MOST_NAMESPACES, 0),
        "namespaces_unread": sums.items is None,
    }


def _shares(mid: int | None, requested: int | None, used: int | None, resource: str) -> tuple[Any, ...]:
    amounts = numbers.column([mid, requested, used], resource)
    return (
        *amounts[:2],
        numbers.percent(percent(requested, mid)),
        amounts[2],
        (part("mid-request", 0, percent(requested, mid)),),
        (part("mid", 0, percent(used, mid)),),
    )


def _namespaces(found: Sequence[NamespaceState], whole: int | None) -> list[dict[str, Any]]:
    columns = {
        name: numbers.column([getattr(each, name).cpu for each in found])
        for name in ("prod_requests", "prod_used", "mid_requests", "mid_held", "mid_used", "mid_quota")
    }
    return [
        {name: column[row] for name, column in columns.items()} | _namespace(each, whole)
        for row, each in enumerate(found)
    ]


def _namespace(each: NamespaceState, whole: int | None) -> dict[str, Any]:
    return {
        "name": each.name,
        "pods": f"{each.pods:,}",
        "unmeasured": f"{each.unmeasured:,}",
        "part": part("mid-request", 0, percent(each.mid_held.cpu, whole)),
        "is_default": each.is_quota_default,
        **({"mid_quota": "malformed"} if each.is_quota_malformed else {}),
    }

"""Page Mid: how much there is, who has it, and where it was taken away. Pure."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from console.cluster.details import Listed
from console.history.memory import History
from console.pages import shown
from console.pages.shown import part
from console.view import FleetView
from fleet import wire
from fleet.node_state import percent
from fleet.pod_state import NamespaceState
from manager.mid_resource.eviction.planning import EVICTED
from manager.mid_resource.reasons import REDUCED, STATUS, Reason, Status

_MOST_POINTS: Final = 120
_MOST_EVENTS: Final = 50
_MOST_NAMESPACES: Final = 50
TAKEN: Final = frozenset({REDUCED, EVICTED, *(reason for reason in Reason if STATUS[reason] is Status.WITHDRAWN)})
"""Reasons of Events about Mid that was taken away."""


def context(
    view: FleetView, history: History, events: Listed[wire.WireEvent], sums: Listed[NamespaceState], now: dt.datetime
) -> dict[str, Any]:
    """Return the values of the template."""
    nodes = view.nodes
    mid, requested, used = (view.totals[name] for name in ("mid", "mid_requests", "mid_used"))
    states = Counter(shown.mid_sign(node)[:3] for node in nodes)
    points = history.fleet_points("cpu")
    listed = sorted(sums.items or (), key=lambda namespace: (-(namespace.mid_held.cpu or 0), namespace.name))
    return {
        "headline": f"{shown.cores(mid.cpu)} cores and {shown.gib(mid.memory)} GiB of Mid on {len(nodes):,} nodes",
        "totals": [
            ("CPU", "cores", *_shares(mid.cpu, requested.cpu, used.cpu, "cpu")),
            ("Memory", "GiB", *_shares(mid.memory, requested.memory, used.memory, "memory")),
        ],
        "points": shown.thinned(points, _MOST_POINTS),
        "states": sorted(states.items(), key=lambda count: -count[1]),
        "events": shown.events([event for event in events.items or () if event.reason in TAKEN][:_MOST_EVENTS], now),
        "events_unread": events.items is None,
        "namespaces": _namespaces(listed[:_MOST_NAMESPACES], requested.cpu),
        "more_namespaces": max(len(listed) - _MOST_NAMESPACES, 0),
        "namespaces_unread": sums.items is None,
    }


def _shares(mid: int | None, requested: int | None, used: int | None, resource: str) -> tuple[Any, ...]:
    amounts = shown.column([mid, requested, used], resource)
    return (
        *amounts[:2],
        shown.percent_text(percent(requested, mid)),
        amounts[2],
        (part("mid-request", 0, percent(requested, mid)),),
        (part("mid", 0, percent(used, mid)),),
    )


def _namespaces(namespaces: Sequence[NamespaceState], whole: int | None) -> list[dict[str, Any]]:
    columns = {
        name: shown.each_cores(getattr(state, name).cpu for state in namespaces)
        for name in ("prod_requests", "prod_used", "mid_requests", "mid_held", "mid_used", "mid_quota")
    }
    return [
        {
            **{name: column[row] for name, column in columns.items()},
            "name": state.name,
            "pods": f"{state.pods:,}",
            "unmeasured": f"{state.unmeasured_pods:,}",
            "part": part("mid-request", 0, percent(state.mid_held.cpu, whole)),
            "is_default": state.mid_quota_is_default,
            **({"mid_quota": "malformed"} if state.mid_quota_malformed else {}),
        }
        for row, state in enumerate(namespaces)
    ]

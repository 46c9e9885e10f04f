"""How long Mid pods may keep a node before it is emptied, and how much its other pods may request then. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from manager.mid_resource.eviction.policy import EvictionPolicy

EMPTY_AFTER: Final = dt.timedelta(seconds=300)
"""Beside an autoscaler, where no key sets it: a rollout of Prod, and the next pods of a Job, are over by then."""
EMPTY_WITHOUT_ROOM_AFTER: Final = dt.timedelta(seconds=600)
UNDERUSED_PERCENT: Final = {"none": 0, "karpenter": 100, "cluster-autoscaler": 50}
"""Share of a node that its other pods may request, where no key sets it, by the autoscaler: Karpenter removes any node
whose pods fit elsewhere, cluster-autoscaler those below its `--scale-down-utilization-threshold`, 0.5 by default."""


class Graces(NamedTuple):
    """Times for which only Mid pods keep a node that is then emptied; zero for never."""

    with_room: dt.timedelta
    without_room: dt.timedelta


def of(policy: EvictionPolicy, autoscaler: str) -> Graces:
    """Return the graces of a node; a key that is not set follows the autoscaler."""
    default = dt.timedelta() if autoscaler == "none" else EMPTY_AFTER
    with_room = default if policy.empty_after is None else policy.empty_after
    without = EMPTY_WITHOUT_ROOM_AFTER if policy.empty_without_room_after is None else policy.empty_without_room_after
    if policy.mode == "off" or not with_room:
        return Graces(dt.timedelta(), dt.timedelta())
    return Graces(with_room, max(without, with_room) if without else dt.timedelta())


def underused_percent(policy: EvictionPolicy, autoscaler: str) -> int:
    """Return the percent of a node that its other pods may request where it is emptied all the same; 0 for none."""
    configured = policy.empty_underused_percent
    return UNDERUSED_PERCENT[autoscaler] if configured is None else configured

"""Policy of the eviction of Mid pods, with every default filled in. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from typing import Final, NamedTuple

from api_types.colocation import controller_config as slo
from manager.slo_config.strategy import NodeStrategy, once_per_strategy

DRAIN_FACTOR: Final = 10
"""`midEmergency: drain` evicts at so many times the rate."""
_LEAST_PER_MINUTE: Final = 5
_NODES_PER_EVICTION: Final = 10
_LEAST_EMPTIED: Final = 1
_NODES_PER_EMPTIED: Final = 10
_MOST_EMPTIED: Final = 50
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


@dataclass(frozen=True)
class EvictionPolicy:
    """Policy of one node."""

    mode: slo.EvictionMode
    """`evict` in shadow is `advise`: nothing is published there that a pod could have been admitted by."""
    drains: bool
    """Whether every Mid pod is to go."""
    reports: int
    memory_threshold_percent: int | None
    """None where the reported memory includes the page cache, which is no shortage."""
    node_interval: dt.timedelta
    readmit_percent: int
    readmit_after: dt.timedelta
    fresh: dt.timedelta
    """Age beyond which a sample shows nothing."""
    cold_start: dt.timedelta
    """Length of the recorded history below which a node's prediction shows nothing."""
    empty_after: dt.timedelta | None = None
    """Time for which only Mid pods keep a node that is then emptied; zero for never, None where no key sets it."""
    empty_without_room_after: dt.timedelta | None = None
    """The same where its Mid pods have no other place."""
    empty_underused_percent: int | None = None
    """Share of the node that its other pods may request where it is emptied too; 0 for none, None without a key."""
    is_frozen: bool = False
    """Whether no node accepts new Mid pods, so that the pods of a node that is emptied have no other place."""

    @property
    def evicts(self) -> bool:
        """Check whether pods are evicted; advice is given otherwise."""
        return self.mode == "evict"


@once_per_strategy
def eviction_policy(strategy: NodeStrategy) -> EvictionPolicy:
    """Return the policy of nodes with this strategy; without colocation nothing is evicted but by a drain."""
    found = of_keys(strategy.strategy, strategy.emergency)
    return found if strategy.enabled or found.drains else dataclasses.replace(found, mode="off")


def of_keys(keys: slo.ColocationStrategy, emergency: slo.MidEmergency = "none") -> EvictionPolicy:
    """Return the policy that these keys make; one that is not set has its default."""
    own, of_default = keys.mid_eviction or slo.MidEviction(), slo.DEFAULTS.mid_eviction or slo.MidEviction()

    def number(field: str) -> int:
        value = getattr(own, field)
        return int(getattr(of_default, field) if value is None else value)

    mode = own.mode or of_default.mode or "advise"
    drains = emergency == "drain" and mode != "off"
    if drains:
        mode = "evict"
    if mode == "evict" and keys.mid_publish == "shadow":
        mode = "advise"
    with_page_cache = keys.metric_memory_collect_policy == "usageWithPageCache"
    interval, predict = number("node_interval_seconds"), keys.node_predict_policy
    return EvictionPolicy(
        mode=mode,
        drains=drains,
        is_frozen=emergency == "freeze",
        reports=number("reports"),
        memory_threshold_percent=None if with_page_cache else number("memory_threshold_percent"),
        node_interval=dt.timedelta(seconds=interval / DRAIN_FACTOR if drains else interval),
        readmit_percent=number("readmit_percent"),
        readmit_after=dt.timedelta(seconds=number("readmit_seconds")),
        fresh=dt.timedelta(seconds=2 * (keys.metric_report_interval_seconds or 60) + 30),
        cold_start=dt.timedelta(seconds=(predict.cold_start_period_seconds if predict else 0) or 0),
        empty_after=_seconds(own.empty_node_seconds),
        empty_without_room_after=_seconds(own.empty_node_without_room_seconds),
        empty_underused_percent=own.empty_underused_percent,
    )


def graces_of(policy: EvictionPolicy, autoscaler: str) -> Graces:
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


def _seconds(value: int | None) -> dt.timedelta | None:
    return None if value is None else dt.timedelta(seconds=value)


def most_emptied(configured: int | None, nodes: int) -> int:
    """Return how many nodes that only Mid pods keep may be closed at a time: by default it grows with the fleet."""
    usual = min(max(_LEAST_EMPTIED, nodes // _NODES_PER_EMPTIED), _MOST_EMPTIED)
    return usual if configured is None else configured


def cluster_per_minute(configured: int | None, nodes: int, *, drains: bool) -> int:
    """Return the evictions within a minute that the whole cluster permits: by default they grow with the fleet."""
    usual = max(_LEAST_PER_MINUTE, nodes // _NODES_PER_EVICTION) if configured is None else configured
    return usual * DRAIN_FACTOR if drains else usual

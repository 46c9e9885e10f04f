"""Policy of the eviction of Mid pods, with every default filled in. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from typing import Final

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


@dataclass(frozen=True)
class EvictionPolicy:
    """Policy of one node."""

    mode: slo.EvictionMode
    """`evict` in shadow is `advise`: nothing is published there that a pod could have been admitted by."""
    drains: bool
    """Whether every Mid pod is to go."""
    reports: int
    tolerance_percent: int
    """Share of what Mid pods request that may be short before it counts."""
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
    is_frozen: bool = False
    """Whether no node accepts new Mid pods, so that the pods of a node that is emptied have no other place."""

    @property
    def evicts(self) -> bool:
        """Check whether pods are evicted; advice is given otherwise."""
        return self.mode == "evict"


@once_per_strategy
def eviction_policy(strategy: NodeStrategy) -> EvictionPolicy:
    """Return the policy of nodes with this strategy; without colocation nothing is evicted but by a drain."""
    policy = from_keys(strategy.strategy, strategy.emergency)
    return policy if strategy.enabled or policy.drains else dataclasses.replace(policy, mode="off")


def from_keys(keys: slo.ColocationStrategy, emergency: slo.MidEmergency = "none") -> EvictionPolicy:
    """Return the policy that these keys make; one that is not set has its default."""
    chosen, defaults = keys.mid_eviction or slo.MidEviction(), slo.DEFAULTS.mid_eviction or slo.MidEviction()

    def number(field: str) -> int:
        value = getattr(chosen, field)
        return int(getattr(defaults, field) if value is None else value)

    mode = chosen.mode or defaults.mode or "advise"
    drains = emergency == "drain" and mode != "off"
    if drains:
        mode = "evict"
    if mode == "evict" and keys.mid_publish == "shadow":
        mode = "advise"
    with_page_cache = keys.metric_memory_collect_policy == slo.WITH_PAGE_CACHE
    interval, predict = number("node_interval_seconds"), keys.node_predict_policy
    return EvictionPolicy(
        mode=mode,
        drains=drains,
        is_frozen=emergency == "freeze",
        reports=number("reports"),
        tolerance_percent=number("shortage_tolerance_percent"),
        memory_threshold_percent=None if with_page_cache else number("memory_threshold_percent"),
        node_interval=dt.timedelta(seconds=interval / DRAIN_FACTOR if drains else interval),
        readmit_percent=number("readmit_percent"),
        readmit_after=dt.timedelta(seconds=number("readmit_seconds")),
        fresh=dt.timedelta(seconds=2 * (keys.metric_report_interval_seconds or 60) + 30),
        cold_start=dt.timedelta(seconds=(predict.cold_start_period_seconds if predict else 0) or 0),
        empty_after=None if chosen.empty_node_seconds is None else dt.timedelta(seconds=chosen.empty_node_seconds),
    )


def empty_grace(policy: EvictionPolicy, autoscaler: str) -> dt.timedelta:
    """Return the time for which only Mid pods keep a node that is then emptied; zero for never."""
    default = dt.timedelta() if autoscaler == "none" else EMPTY_AFTER
    grace = default if policy.empty_after is None else policy.empty_after
    return dt.timedelta() if policy.mode == "off" else grace


def most_emptied(configured: int | None, nodes: int) -> int:
    """Return how many nodes that only Mid pods keep may be closed at a time: by default it grows with the fleet."""
    usual = min(max(_LEAST_EMPTIED, nodes // _NODES_PER_EMPTIED), _MOST_EMPTIED)
    return usual if configured is None else configured


def cluster_per_minute(configured: int | None, nodes: int, *, drains: bool) -> int:
    """Return the evictions within a minute that the whole cluster permits: by default they grow with the fleet."""
    usual = max(_LEAST_PER_MINUTE, nodes // _NODES_PER_EVICTION) if configured is None else configured
    return usual * DRAIN_FACTOR if drains else usual

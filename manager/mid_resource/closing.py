"""Decide why a node accepts no new Mid pod, whatever is calculated for it. Pure."""

from __future__ import annotations

from api_types.node_metric import mid_eviction
from manager.cache import store
from manager.mid_resource import departure
from manager.mid_resource.reasons import Closed
from manager.slo_config.strategy import NodeStrategy


def why_closed(node: store.Node, strategy: NodeStrategy) -> Closed:
    """Return the first reason of: the whole cluster, the node leaves, the eviction annotation, the node may leave."""
    if strategy.emergency != "none":
        return Closed.FROZEN
    leaves = departure.of(node)
    if leaves.is_leaving:
        return leaves.closed
    record = mid_eviction.of(node)
    if record is not None:
        return Closed.MID_ONLY if record.trigger == mid_eviction.MID_ONLY else Closed.EVICTED
    return leaves.closed

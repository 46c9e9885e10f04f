"""Decide why a node accepts no new Mid pod, whatever is calculated for it. Pure."""

from __future__ import annotations

from typing import Final

from api_types.node_metric import mid_eviction
from manager.cache import store
from manager.mid_resource import departure
from manager.mid_resource.reasons import Closed
from manager.slo_config.strategy import NodeStrategy

_CLOSED_BY: Final = {mid_eviction.MID_ONLY: Closed.MID_ONLY, mid_eviction.UNDERUSED: Closed.UNDERUSED}


def why_closed(node: store.Node, strategy: NodeStrategy) -> Closed:
    """Return the first reason of: the whole cluster, the node leaves, the eviction annotation, the node may leave."""
    if strategy.emergency != "none":
        return Closed.FROZEN
    leaves = departure.of(node)
    if leaves.is_leaving:
        return leaves.closed
    record = mid_eviction.of(node)
    if record is not None:
        return _CLOSED_BY.get(record.trigger, Closed.EVICTED)
    return leaves.closed

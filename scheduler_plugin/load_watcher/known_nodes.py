"""The nodes that exist, with what turns an amount into a percentage and tells where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods
from scheduler_plugin.load_watcher.records import Metadata

DATA_CENTER_LABEL: Final = "topology.kubernetes.io/zone"
"""Label whose value is told as `dataCenter`."""
POOL_LABEL: Final = "node.kubernetes.io/pool"
"""Label whose value is told as `pool`; providers of Kubernetes have one of their own, so it is a setting."""


class KnownNode(NamedTuple):
    """Capacity, 0 where the node does not tell, and place."""

    cpu_millis: int
    memory_bytes: int
    metadata: Metadata = Metadata()


KnownNodes = Callable[[], Mapping[str, KnownNode]]
"""By node name, as of now."""


def known_node(node: pods.Node, data_center_label: str = DATA_CENTER_LABEL, pool_label: str = POOL_LABEL) -> KnownNode:
    """Read a Node. Raises quantities.InvalidQuantity."""
    capacity = pods.units(node.status.capacity)
    labels = pods.labels_of(node.metadata)
    place = Metadata(labels.get(data_center_label, ""), labels.get(pool_label, ""))
    return KnownNode(capacity.get(names.CPU, 0), capacity.get(names.MEMORY, 0), place)


def percent_of(amount: float, capacity: int) -> float | None:
    """Percent of capacity; None where there is none."""
    return 100.0 * amount / capacity if capacity > 0 else None

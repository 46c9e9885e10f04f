"""Existing nodes with their capacity, which converts amounts to percent, and their location."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods
from scheduler_plugin.load_watcher.records import Metadata

DATA_CENTER_LABEL: Final = "topology.kubernetes.io/zone"
"""Label whose value is served as `dataCenter`."""
POOL_LABEL: Final = "node.kubernetes.io/pool"
"""Label whose value is served as `pool`. Cloud providers use different labels, so it is a setting."""


class KnownNode(NamedTuple):
    """Capacity of a node, 0 if its status has none, and its location."""

    cpu_millis: int
    memory_bytes: int
    metadata: Metadata = Metadata()


ReadKnownNodes = Callable[[], Mapping[str, KnownNode]]
"""Returns the current nodes by name."""


def known_node(node: pods.Node, data_center_label: str = DATA_CENTER_LABEL, pool_label: str = POOL_LABEL) -> KnownNode:
    """Read capacity and location of a Node. Raises quantities.InvalidQuantity."""
    capacity = pods.units(node.status.capacity)
    labels = pods.labels_of(node.metadata)
    place = Metadata(labels.get(data_center_label, ""), labels.get(pool_label, ""))
    return KnownNode(capacity.get(names.CPU, 0), capacity.get(names.MEMORY, 0), place)


def percent_of(amount: float, capacity: int) -> float | None:
    """Convert an amount to percent of capacity; None without capacity."""
    return 100.0 * amount / capacity if capacity > 0 else None

"""Existing nodes with their capacity, which converts amounts to percent, their location and their addresses."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from api_types import names
from api_types.kubernetes import pods
from scheduler_plugin.load_watcher.records import Metadata, NodeMetrics

DATA_CENTER_LABEL: Final = "topology.kubernetes.io/zone"
"""Label whose value is served as `dataCenter`."""
POOL_LABEL: Final = "node.kubernetes.io/pool"
"""Label whose value is served as `pool`. Cloud providers use different labels, so it is a setting."""


class KnownNode(NamedTuple):
    """Capacity of a node, 0 if its status has none, its location, its tags and its addresses."""

    cpu_millis: int
    memory_bytes: int
    metadata: Metadata = Metadata()
    tags: Mapping[str, str] = types.MappingProxyType({})
    addresses: Sequence[str] = ()
    """IP addresses and host names."""


ReadKnownNodes = Callable[[], Mapping[str, KnownNode]]
"""Returns the current nodes by name."""


def known_node(
    node: pods.Node,
    data_center_label: str = DATA_CENTER_LABEL,
    pool_label: str = POOL_LABEL,
    tag_labels: Sequence[str] = (),
) -> KnownNode:
    """Read capacity, location, tags (label -> value) and addresses of a Node. Raises quantities.InvalidQuantity."""
    capacity = pods.units(node.status.capacity)
    labels = pods.label_map(node.metadata)
    place = Metadata(labels.get(data_center_label, ""), labels.get(pool_label, ""))
    tags = {label: labels[label] for label in tag_labels if label in labels}
    addresses = tuple({address.address: None for address in node.status.addresses or ()})
    return KnownNode(capacity.get(names.CPU, 0), capacity.get(names.MEMORY, 0), place, tags, addresses)


def by_address(nodes: Mapping[str, KnownNode]) -> dict[str, str]:
    """Return the name of the node at each address.

    Kubelets write the addresses, so one that two nodes have, or that is the name of a node, belongs to neither: no node
    can be measured by the values of another.
    """
    names_by_address: dict[str, str] = {}
    ambiguous = set(nodes)
    for name, node in nodes.items():
        for address in node.addresses:
            if names_by_address.setdefault(address, name) != name:
                ambiguous.add(address)
    return {address: name for address, name in names_by_address.items() if address not in ambiguous}


def located(nodes: Mapping[str, NodeMetrics], existing: Mapping[str, KnownNode]) -> Mapping[str, NodeMetrics]:
    """Add the tags of the nodes, and their location where the provider gave none."""
    return {name: _with_labels(node, existing[name]) if name in existing else node for name, node in nodes.items()}


def _with_labels(node: NodeMetrics, existing: KnownNode) -> NodeMetrics:
    place = Metadata(
        node.metadata.data_center or existing.metadata.data_center, node.metadata.pool or existing.metadata.pool
    )
    if place == node.metadata and not existing.tags:
        return node
    return msgspec.structs.replace(node, tags={**node.tags, **existing.tags}, metadata=place)


def to_percent(amount: float, capacity: int) -> float | None:
    """Convert an amount to percent of capacity; None without capacity."""
    return 100.0 * amount / capacity if capacity > 0 else None

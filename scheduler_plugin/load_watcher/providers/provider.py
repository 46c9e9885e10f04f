"""Interface of a provider of measurements: nodes, the selection of hosts, and what all servers over HTTP share."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods
from component_base.http_client import HttpClient, Reach, RequestFailed
from scheduler_plugin.load_watcher.records import Metadata, NodeMetrics, Window

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
    capacity = node_reservation.capacity(node)
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


ProviderFailed = RequestFailed
"""Nothing was delivered; the message names the address, the observed and the expected result."""


class Fetched(NamedTuple):
    """Result of one fetch: the nodes, and the parts that failed. A failed part never affects the other parts."""

    nodes: Mapping[str, NodeMetrics]
    """By Kubernetes node name; may be empty. A node with a window of its own was not sampled over the requested one."""
    problems: Sequence[str] = ()
    """One line for each query or node without a usable result."""


class Provider(Protocol):
    """Source of measurements. Every method can be called at any time and again; no method keeps relevant state."""

    name: str
    """Name in the configuration and `source` of the snapshots."""
    has_deviation: bool
    """Whether every AVG comes with an STD: a resource without it is then incomplete. Else a missing STD counts as 0."""

    async def check(self) -> Sequence[str]:
        """Check the source once, at start, and return one line for each problem."""

    async def fetch(self, window: Window) -> Fetched:
        """Return the statistics of every node over the window. Raises ProviderFailed."""

    async def is_healthy(self) -> bool:
        """Return whether the source responds now."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True)
class HostFilter:
    """Selection of the hosts that belong to this cluster, in a service that knows many clusters."""

    name_suffix: str = ""
    cluster_name: str = ""


def node_name(host: str, nodes: Collection[str] = ()) -> str:
    """Return the whole name of a host if a node has it, else its name up to the first dot."""
    return host if host in nodes else host.partition(".")[0]


class HttpProvider:
    """Provider that reads one server."""

    health_path: str
    """The server is healthy while it returns 200; a provider without one has a check of its own."""

    def __init__(self, reach: Reach) -> None:
        self._client = HttpClient(reach)
        self._address = self._client.shown

    async def check(self) -> Sequence[str]:
        """Return a problem if the server is not healthy."""
        return await self._health_problems()

    async def is_healthy(self) -> bool:
        """Return whether the server is healthy now."""
        return not await self._health_problems()

    async def _health_problems(self) -> Sequence[str]:
        try:
            await self._client.send("GET", self.health_path)
        except ProviderFailed as error:
            return (str(error),)
        return ()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _json(self, method: str, path: str, **request: Any) -> Any:
        reply = await self._client.send(method, path, **request)
        try:
            return msgspec.json.decode(reply.content)
        except msgspec.DecodeError as error:
            raise ProviderFailed(
                f"{self._client.shown}{path} did not return JSON ({error}); check the address"
            ) from error

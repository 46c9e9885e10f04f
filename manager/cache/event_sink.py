"""Receiver of watch events in the main loop: updates the store and adds what changed to a work queue. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from manager.cache.store import ClusterStore, Store


class EventSink:
    """`add` gets the name of a node, `add_config` is called for the ConfigMap."""

    def __init__(
        self,
        cache: ClusterStore,
        *,
        add: Callable[[str], None],
        add_config: Callable[[], None],
    ) -> None:
        self._stores: Mapping[str, Store[Any]] = {
            "nodes": cache.nodes,
            "nodemetrics": cache.node_metrics,
            "configmaps": cache.config_maps,
        }
        self._add_node = add
        self._add_config = add_config

    def decode(self, plural: str, wire: Mapping[str, Any]) -> Any:
        """Decode an object; usable from any thread. Raises msgspec.ValidationError."""
        return self._stores[plural].decode(wire)

    def updated(self, plural: str, item: Any) -> None:
        """Store a decoded object and add it to its queue."""
        self._stores[plural].update(item)
        self._add(plural, item.metadata.name)

    def deleted(self, plural: str, name: str, uid: str | None) -> None:
        """Remove an object and add it to its queue; with `uid` only the object that has it is removed."""
        self._stores[plural].remove(name, uid)
        self._add(plural, name)

    def requeue(self, nodes: Iterable[str]) -> None:
        """Add nodes to their queue."""
        for name in nodes:
            self._add_node(name)

    def _add(self, plural: str, name: str) -> None:
        if plural == "configmaps":
            self._add_config()
        else:
            self._add_node(name)

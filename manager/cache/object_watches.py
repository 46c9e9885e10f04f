"""Watches of Nodes and NodeMetrics in the main loop, into the store.

kopf has a task, a queue and a memory for each object, and decodes it with the standard library: 2 ms of CPU for a
report of 50 pods, and as much for the write to the Node that follows it (decision 0019). These watches are the one of
the agent and the scheduler plugin (`apiserver_client.watching`), which also survives a missing CRD, and knows when it
ends.

Events come in the order of the apiserver, but the responses to the manager's own writes overtake them: the store keeps
the newer version.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from apiserver_client import backoff, errors, resources, session, watching
from manager.cache.store import Availability, ClusterStore, Store, StoredNodeMetric

log = logging.getLogger(__name__)


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


_PAGE_SIZE: Final = 100
"""A page of reports of 50 pods is 1.5 MB."""
RETRIES: Final = backoff.Backoff(first_seconds=0.8, longest_seconds=10.0)
"""Delays after failures; the last one is how often NodeMetrics are requested while their CRD is missing."""


class VersionsWentBack(Exception):
    """etcd was restored from a backup: whatever is stored may be of a future that did not happen."""


class ObjectWatch:
    """Watch of the objects of one kind, `decode` their type; `follow` watches until it is cancelled.

    `sink` gets each change, `on_event` is called for it; `show_problem` gets why the watch fails, None where it works.
    """

    def __init__(
        self,
        api: session.Session,
        resource: resources.Resource,
        *,
        store: Store[Any],
        decode: type,
        sink: EventSink,
        on_event: Callable[[str], None],
        show_problem: Callable[[str, str | None], None],
    ) -> None:
        self._api = api
        self._resource = resource
        self._store = store
        self._decode = decode
        self._sink = sink
        self._on_event = on_event
        self._show_problem = show_problem
        self.listed = asyncio.Event()
        """Set once a whole list is in the store."""
        self.answered = asyncio.Event()
        """Set once a whole list is in the store, or the first attempt has failed."""

    async def follow(self) -> None:
        """List and watch until cancelled; an object that cannot be decoded or stored delays no other.

        Raises VersionsWentBack: the process begins again, as Kubernetes recommends for all that watch a restored etcd.
        """
        events = watching.list_then_watch(
            self._api,
            self._resource,
            decode=self._decode,
            page_size=_PAGE_SIZE,
            remember=lambda key: key.name,
            on_state=self._note,
            wait=RETRIES,
        )
        async with contextlib.aclosing(events):
            async for event in events:
                if isinstance(event, watching.Synced) and event.restored:
                    raise VersionsWentBack(
                        f"the versions of {self._resource.plural} went back, as after a restore of etcd: "
                        "restarting, to read everything again"
                    )
                try:
                    self._apply(event)
                except Exception:
                    log.exception("unexpected error, dropped the event of %s", getattr(event, "key", "a list's end"))
                del event  # the next may come much later

    def _apply(self, event: watching.Event[Any]) -> None:
        if isinstance(event, watching.Synced):
            self._list_ended(event)
            return
        plural = self._resource.plural
        self._on_event(plural)
        if isinstance(event, watching.Changed):
            self._sink.updated(plural, event.object)
        elif isinstance(event, watching.Deleted):
            self._sink.deleted(plural, event.key.name, event.object.metadata.uid if event.object else None)
        else:
            kind = self._resource.kind
            log.warning("cannot decode %s %s: %s; keeping what is known", kind, event.key.name, event.reason)

    def _list_ended(self, event: watching.Synced) -> None:
        """Drop what the list no longer has."""
        for name in self._store.gone(event.keys, event.resource_version):
            self._sink.deleted(self._resource.plural, name, None)
        self.listed.set()

    def _note(self, state: watching.WatchState) -> None:
        error = state.last_error
        self._show_problem(self._resource.plural, None if error is None else str(error))
        self.answered.set()


class NodeMetricWatch(ObjectWatch):
    """Watch of NodeMetrics, whose CRD may be missing: then there are none, and the store knows why."""

    def __init__(self, api: session.Session, cache: ClusterStore, *, sink: EventSink, **shared: Any) -> None:
        super().__init__(
            api, resources.NODE_METRICS, store=cache.node_metrics, decode=StoredNodeMetric, sink=sink, **shared
        )
        self._cache = cache

    def _list_ended(self, event: watching.Synced) -> None:
        """Drop what the list no longer has; after the first list, and after one without the CRD, requeue every node."""
        super()._list_ended(event)
        if self._cache.node_metrics_are is not Availability.LISTED:
            self._cache.node_metrics_are = Availability.LISTED
            self._sink.requeue(self._cache.nodes.names())

    def _note(self, state: watching.WatchState) -> None:
        error = state.last_error
        if isinstance(error, errors.UnknownResource) and self._cache.node_metrics_are is not Availability.NOT_SERVED:
            log.error("there are no NodeMetrics: %s; retrying every %g s", error, RETRIES.longest_seconds)
            gone = self._cache.node_metrics.names()
            self._cache.node_metrics.replace(())
            self._cache.node_metrics_are = Availability.NOT_SERVED
            self._sink.requeue(gone)
        super()._note(state)

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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from apiserver_client import backoff, errors, resources, session, watching
from manager.cache.store import Availability, ClusterStore, Store, StoredNodeMetric

log = logging.getLogger(__name__)


_PAGE_SIZE: Final = 100
"""A page of reports of 50 pods is 1.5 MB."""
RETRIES: Final = backoff.Backoff(first_seconds=0.8, longest_seconds=10.0)
"""Delays after failures; the last one is how often NodeMetrics are requested while their CRD is missing."""


class VersionsWentBack(Exception):
    """etcd was restored from a backup: whatever is stored may be of a future that did not happen."""


@dataclass(eq=False)
class ObjectWatch:
    """Watch of the objects of one kind, `decode` their type; `follow` watches until it is cancelled.

    `add` gets the name of each object that changed, `on_event` is called for it; `show_problem` gets why the watch
    fails, None where it works.
    """

    api: session.Session
    resource: resources.Resource
    store: Store[Any]
    decode: type
    add: Callable[[str], None]
    on_event: Callable[[str], None]
    show_problem: Callable[[str, str | None], None]

    def __post_init__(self) -> None:
        self.listed = asyncio.Event()
        """Set once a whole list is in the store."""
        self.answered = asyncio.Event()
        """Set once a whole list is in the store, or the first attempt has failed."""

    async def follow(self) -> None:
        """List and watch until cancelled; an object that cannot be decoded or stored delays no other.

        Raises VersionsWentBack: the process begins again, as Kubernetes recommends for all that watch a restored etcd.
        """
        events = watching.list_then_watch(
            self.api, self.resource, decode=self.decode, page_size=_PAGE_SIZE, remember=lambda key: key.name,
            on_state=self._note, wait=RETRIES,
        )  # fmt: skip
        async with contextlib.aclosing(events):
            async for event in events:
                if isinstance(event, watching.Synced) and event.restored:
                    raise VersionsWentBack(
                        f"the versions of {self.resource.plural} went back, as after a restore of etcd: "
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
        plural = self.resource.plural
        self.on_event(plural)
        if isinstance(event, watching.Changed):
            self.store.update(event.object)
            self.add(event.key.name)
        elif isinstance(event, watching.Deleted):
            self._remove(event.key.name, event.object.metadata.uid if event.object else None)
        else:
            kind = self.resource.kind
            log.warning("cannot decode %s %s: %s; keeping what is known", kind, event.key.name, event.reason)

    def _list_ended(self, event: watching.Synced) -> None:
        """Drop what the list no longer has."""
        for name in self.store.gone(event.keys, event.resource_version):
            self._remove(name, None)
        self.listed.set()

    def _remove(self, name: str, uid: str | None) -> None:
        """Remove an object, with `uid` only the one that has it, and add it to its queue."""
        self.store.remove(name, uid)
        self.add(name)

    def _note(self, state: watching.WatchState) -> None:
        error = state.last_error
        self.show_problem(self.resource.plural, None if error is None else str(error))
        self.answered.set()


class NodeMetricWatch(ObjectWatch):
    """Watch of NodeMetrics, whose CRD may be missing: then there are none, and the store knows why."""

    def __init__(self, api: session.Session, cache: ClusterStore, **shared: Any) -> None:
        super().__init__(api, resources.NODE_METRICS, store=cache.node_metrics, decode=StoredNodeMetric, **shared)
        self._cache = cache

    def _list_ended(self, event: watching.Synced) -> None:
        """Drop what the list no longer has; after the first list, and after one without the CRD, requeue every node."""
        super()._list_ended(event)
        if self._cache.node_metrics_are is not Availability.LISTED:
            self._cache.node_metrics_are = Availability.LISTED
            for name in self._cache.nodes.names():
                self.add(name)

    def _note(self, state: watching.WatchState) -> None:
        error = state.last_error
        if isinstance(error, errors.UnknownResource) and self._cache.node_metrics_are is not Availability.NOT_SERVED:
            log.error("there are no NodeMetrics: %s; retrying every %g s", error, RETRIES.longest_seconds)
            gone = self._cache.node_metrics.names()
            self._cache.node_metrics.replace(())
            self._cache.node_metrics_are = Availability.NOT_SERVED
            for name in gone:
                self.add(name)
        super()._note(state)

"""Informer of Nodes and NodeMetrics for a standalone load watcher. No arithmetic."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, TypeVar

from api_types.kubernetes import pods, quantities
from apiserver_client import resources, session, watching
from scheduler_plugin.load_watcher import known_nodes
from scheduler_plugin.load_watcher.known_nodes import KnownNode
from scheduler_plugin.load_watcher.providers.node_metric import RESOURCES
from scheduler_plugin.state import node_report
from scheduler_plugin.state.node_report import NodeMetric, NodeReport

log = logging.getLogger(__name__)

T = TypeVar("T")
V = TypeVar("V")

_FIRST_LIST_SECONDS: Final = 30.0


class NodeInformer:
    """Current nodes, and the newest report of each."""

    def __init__(
        self, api: session.Session, data_center_label: str, pool_label: str, tag_labels: Sequence[str] = ()
    ) -> None:
        self._api = api
        self._labels = (data_center_label, pool_label, tag_labels)
        self.nodes: dict[str, KnownNode] = {}
        self.reports: dict[str, NodeReport] = {}
        self._watched: dict[str, watching.WatchState] = {}
        self._all_listed = asyncio.Event()

    async def run(self, *, with_reports: bool) -> None:
        """Watch nodes, and with `with_reports` NodeMetrics, until cancelled."""
        nodes = self._events(resources.NODES, pods.Node)
        reports = self._events(resources.NODE_METRICS, NodeMetric) if with_reports else None
        async with asyncio.TaskGroup() as group:
            group.create_task(_apply(nodes, self.nodes, lambda node: known_nodes.known_node(node, *self._labels)))
            if reports is not None:
                read = functools.partial(node_report.read, resources=RESOURCES)
                group.create_task(_apply(reports, self.reports, read))

    async def first_lists(self) -> None:
        """Wait until the initial lists are complete, at most `_FIRST_LIST_SECONDS`; providers report missing nodes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LIST_SECONDS):
                await self._all_listed.wait()

    def _events(self, resource: resources.Resource, decode: type[T]) -> AsyncGenerator[watching.Event[T], None]:
        state = self._watched[resource.plural] = watching.WatchState()
        return watching.list_then_watch(
            self._api, resource, decode=decode, state=state, on_state=lambda _state: self._update_synced()
        )

    def _update_synced(self) -> None:
        if all(state.synced for state in self._watched.values()):
            self._all_listed.set()


async def _apply(events: AsyncGenerator[watching.Event[T], None], into: dict[str, V], read: Callable[[T], V]) -> None:
    async with contextlib.aclosing(events):
        async for event in events:
            if isinstance(event, watching.Changed):
                try:
                    into[event.key.name] = read(event.object)
                except quantities.InvalidQuantity as error:
                    log.warning("%s: %s; keeping the last readable version", event.key, error)
            elif isinstance(event, watching.Deleted):
                into.pop(event.key.name, None)
            elif isinstance(event, watching.Synced):
                existing = {key.name for key in event.keys}
                for name in into.keys() - existing:
                    del into[name]
            await asyncio.sleep(0)

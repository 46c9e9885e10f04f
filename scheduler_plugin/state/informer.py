"""Apply the watches of Nodes, Pods and NodeMetrics to the cluster state.

It applies one event per turn of the event loop, so that a call of kube-scheduler waits for one event at most, also
while thousands of objects are listed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from api_types.kubernetes import pods
from apiserver_client import resources, session, watching
from scheduler_plugin.state import pod_info
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.node_report import NodeMetric

log = logging.getLogger(__name__)

T = TypeVar("T")

RUNNING_SOMEWHERE: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the pods that use something; a pod that ends leaves the selection and arrives as deleted."""
PAGE_SIZE: Final = 100
"""Objects per page of a list. A page is split in one turn of the event loop: 1 ms for 1.4 MB of NodeMetrics."""


class Watches(NamedTuple):
    """State of each watch."""

    nodes: watching.WatchState
    pods: watching.WatchState
    node_metrics: watching.WatchState

    def unsynced(self) -> list[str]:
        """Return the names of the watches whose first list is not complete, each with its last error.

        That of pods is complete from the start where kube-scheduler shows the pods.
        """
        return [
            name + (f" ({state.last_error})" if state.last_error else "")
            for name, state in self._asdict().items()
            if not state.synced
        ]

    def awaited(self) -> list[str]:
        """Return those that answers wait for: not NodeMetrics that cannot be listed, as load alone is read from them.

        Quotas, what a node states, and `midEmergency` hold without a report.
        """
        reports = self.node_metrics
        failed = not reports.synced and bool(reports.last_error)
        return self._replace(node_metrics=watching.WatchState(synced=True)).unsynced() if failed else self.unsynced()


def new_watches(*, with_pods: bool = True) -> Watches:
    """Return the state of watches that have not begun."""
    return Watches(watching.WatchState(), watching.WatchState(synced=not with_pods), watching.WatchState())


@dataclass(frozen=True, eq=False)
class Informer:
    """Informer of one cluster state."""

    api: session.Session
    cluster: Cluster
    watches: Watches
    shown: Callable[[pods.Pod], None] | None
    """Gets the pods with a node; None where kube-scheduler shows all pods."""

    async def run(self) -> None:
        """Follow all watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for follow in (self._follow_nodes(), self._follow_metrics()):
                group.create_task(follow)
            if self.shown is not None:
                group.create_task(self._follow_pods(self.shown))

    async def _follow_nodes(self) -> None:
        nodes = self._listed(resources.NODES, decode=pods.Node, remember=lambda key: key.name, state=self.watches.nodes)
        await _follow(
            nodes,
            changed=self.cluster.node_changed,
            deleted=lambda key, _node: self.cluster.node_deleted(key.name),
            keep=self.cluster.keep_nodes,
        )

    async def _follow_metrics(self) -> None:
        metrics = self._listed(
            resources.NODE_METRICS,
            decode=NodeMetric,
            remember=lambda key: key.name,
            state=self.watches.node_metrics,
        )
        await _follow(
            metrics,
            changed=self.cluster.metric_changed,
            deleted=lambda key, _metric: self.cluster.metric_deleted(key.name),
            keep=self.cluster.keep_metrics,
        )

    async def _follow_pods(self, shown: Callable[[pods.Pod], None]) -> None:
        bound = self._listed(
            resources.PODS,
            field_selector=RUNNING_SOMEWHERE,
            decode=pods.Pod,
            remember=lambda key: pod_info.pod_digest(*key),
            state=self.watches.pods,
        )
        await _follow(
            bound,
            changed=shown,
            deleted=lambda key, pod: self.cluster.pod_deleted(*key, pod.metadata.uid if pod else None),
            keep=self.cluster.keep_pods,
        )

    @property
    def _listed(self) -> Callable[..., AsyncGenerator[watching.Event[Any], None]]:
        return functools.partial(watching.list_then_watch, self.api, page_size=PAGE_SIZE)


async def _follow(
    events: AsyncGenerator[watching.Event[T], None],
    *,
    changed: Callable[[T], None],
    deleted: Callable[[watching.Key, T | None], None],
    keep: Callable[[AbstractSet[Any]], Iterator[None]],
) -> None:
    async with contextlib.aclosing(events):
        async for event in events:
            try:
                for _slice in keep(event.keys) if isinstance(event, watching.Synced) else ():
                    await asyncio.sleep(0)
                if isinstance(event, watching.Changed):
                    changed(event.object)
                elif isinstance(event, watching.Deleted):
                    deleted(event.key, event.object)
                elif isinstance(event, watching.Unreadable):
                    log.warning(
                        "%s: cannot be decoded, keeping the last decodable version: %s", event.key, event.reason
                    )
            except Exception:
                log.exception("unexpected error, dropped the watch event of %s", getattr(event, "key", "a list's end"))
            del event  # the next may come much later, and the end of a list holds the digests of all its keys
            await asyncio.sleep(0)

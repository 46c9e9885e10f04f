"""Apply the watches of Nodes, Pods and NodeMetrics to the cluster state.

It applies one event per turn of the event loop, so that a call of kube-scheduler waits for one event at most, also
while thousands of objects are listed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, TypeVar

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


Watches = Mapping[str, watching.WatchState]
"""State of each watch by name."""


def unsynced(watches: Watches, unless_failing: Container[str] = ()) -> list[str]:
    """Return the names of the watches whose first list is not complete, each with its last error.

    Those in `unless_failing` only while their list does not fail.
    """
    return [
        name + (f" ({state.last_error})" if state.last_error else "")
        for name, state in watches.items()
        if not state.synced and not (state.last_error and name in unless_failing)
    ]


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
        cluster, watches = self.cluster, self.watches
        listed = functools.partial(watching.list_then_watch, self.api, page_size=PAGE_SIZE)
        nodes = listed(resources.NODES, decode=pods.Node, remember=_name, state=watches["nodes"])
        reports = listed(resources.NODE_METRICS, decode=NodeMetric, remember=_name, state=watches["node_metrics"])
        async with asyncio.TaskGroup() as group:
            group.create_task(
                _follow(
                    nodes,
                    changed=cluster.node_changed,
                    deleted=lambda key, _node: cluster.node_deleted(key.name),
                    keep=cluster.keep_nodes,
                )
            )
            group.create_task(
                _follow(
                    reports,
                    changed=cluster.metric_changed,
                    deleted=lambda key, _metric: cluster.metric_deleted(key.name),
                    keep=cluster.keep_metrics,
                )
            )
            if self.shown is not None:
                bound = listed(
                    resources.PODS,
                    field_selector=RUNNING_SOMEWHERE,
                    decode=pods.Pod,
                    remember=lambda key: pod_info.pod_digest(*key),
                    state=watches["pods"],
                )
                group.create_task(
                    _follow(
                        bound,
                        changed=self.shown,
                        deleted=lambda key, pod: cluster.pod_deleted(*key, pod.metadata.uid if pod else None),
                        keep=cluster.keep_pods,
                    )
                )


def _name(key: watching.Key) -> str:
    return key.name


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

"""Apply the watches of Nodes, Pods and NodeMetrics to the cluster state.

It applies one event per turn of the event loop, so that a call of kube-scheduler waits for one event at most, also
while thousands of objects are listed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
from array import array
from collections.abc import AsyncGenerator, Callable, Iterator, MutableSet
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from api_types.kubernetes import pods
from apiserver_client import resources, session, watching
from scheduler_plugin.state import pod_info
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.node_report import NodeMetric
from scheduler_plugin.state.waiting_pods import NOT_BOUND, WaitingPod, WaitingPods

_BUCKETS: Final = 8192  # at 450,000 digests 55 in each, and 1 us for a lookup


class DigestSet(MutableSet[int]):
    """A set of integers of 64 bits, as `hash` returns them; 10 bytes each."""

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]

    def add(self, value: int) -> None:
        """Add a digest."""
        bucket = self._buckets[value % _BUCKETS]
        if value not in bucket:
            bucket.append(value)

    def discard(self, value: int) -> None:
        """Remove a digest, if it is present."""
        bucket = self._buckets[value % _BUCKETS]
        if value in bucket:
            bucket.remove(value)

    def __contains__(self, value: object) -> bool:
        """Return whether a digest was added."""
        return isinstance(value, int) and value in self._buckets[value % _BUCKETS]

    def __iter__(self) -> Iterator[int]:
        """Iterate over every digest, in no order."""
        return itertools.chain.from_iterable(self._buckets)

    def __len__(self) -> int:
        """Return the number of digests."""
        return sum(map(len, self._buckets))


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
    waiting_pods: watching.WatchState

    def unsynced(self) -> list[str]:
        """Return the names of the watches whose first list is not complete, each with its last error.

        Those of pods are complete from the start where kube-scheduler shows the pods.
        """
        return [
            name + (f" ({state.last_error})" if state.last_error else "")
            for name, state in self._asdict().items()
            if not state.synced
        ]


def new_watches(*, with_pods: bool = True) -> Watches:
    """Return the state of watches that have not begun."""
    of_pods = [watching.WatchState(synced=not with_pods) for _ in range(2)]
    return Watches(watching.WatchState(), of_pods[0], watching.WatchState(), of_pods[1])


@dataclass(frozen=True, eq=False)
class Informer:
    """Informer of one cluster state."""

    api: session.Session
    cluster: Cluster
    waiting: WaitingPods | None
    """None where kube-scheduler shows all pods."""
    watches: Watches
    clock: Callable[[], float]

    async def run(self) -> None:
        """Follow all watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for follow in (self._follow_nodes(), self._follow_metrics()):
                group.create_task(follow)
            if self.waiting is not None:
                for follow in (self._follow_pods(), self._follow_waiting(self.waiting)):
                    group.create_task(follow)

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

    async def _follow_pods(self) -> None:
        bound = self._listed(
            resources.PODS,
            field_selector=RUNNING_SOMEWHERE,
            decode=pods.Pod,
            remember=lambda key: pod_info.pod_digest(*key),
            remember_in=DigestSet,
            state=self.watches.pods,
        )
        await _follow(
            bound,
            changed=lambda pod: self.cluster.pod_changed(pod, self.clock()),
            deleted=lambda key, pod: self.cluster.pod_deleted(*key, pod.metadata.uid if pod else None),
            keep=self.cluster.keep_pods,
        )

    async def _follow_waiting(self, waiting: WaitingPods) -> None:
        not_bound = self._listed(
            resources.PODS,
            field_selector=NOT_BOUND,
            decode=WaitingPod,
            remember=tuple,
            state=self.watches.waiting_pods,
        )
        await _follow(
            not_bound, changed=waiting.changed, deleted=lambda key, _pod: waiting.gone(*key), keep=waiting.keep
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

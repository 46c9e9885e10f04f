"""Reads the whole cluster again from time to time, and mends what the state holds differently: drift, which is a bug.

A list is a moment older or newer than what the watch has told. So a difference is only suspect at first; it is drift
when the object, read on its own and after a pause, again and again differs. Nothing is swapped: the state stays in use
and only what differs is replaced, one object per turn of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from api_types.kubernetes import pods
from apiserver_client import decoding, errors, objects, resources, session
from scheduler_plugin.state import comparison, informer
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.digest_set import DigestSet
from scheduler_plugin.state.node_metric_decoder import NodeMetric

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 5.0  # by then the watch has told what the list knew already
_READINGS: Final = 3
_MOST_SUSPECTS: Final = (
    500  # more are a watch that has stopped, which has its own alarm; the next time finds them again
)


class _Kind(NamedTuple):
    """How objects of one kind are read, compared and mended."""

    name: str
    resource: resources.Resource
    decode: type[Any]
    field_selector: str | None
    held: Callable[[Cluster], Iterator[comparison.Key]]
    knows: Callable[[Cluster, comparison.Key], bool]
    holds: Callable[[Cluster, Any], bool]
    changed: Callable[[Cluster, Any, float], None]
    deleted: Callable[[Cluster, comparison.Key], None]


_KINDS: Final = (
    _Kind(
        name="node",
        resource=resources.NODES,
        decode=pods.Node,
        field_selector=None,
        held=comparison.nodes_held,
        knows=comparison.knows_node,
        holds=comparison.holds_node,
        changed=lambda cluster, node, _now: cluster.node_changed(node),
        deleted=lambda cluster, key: cluster.node_deleted(key[1]),
    ),
    _Kind(
        name="pod",
        resource=resources.PODS,
        decode=pods.Pod,
        field_selector=informer.RUNNING_SOMEWHERE,
        held=comparison.pods_held,
        knows=comparison.knows_pod,
        holds=comparison.holds_pod,
        changed=Cluster.pod_changed,
        deleted=lambda cluster, key: cluster.pod_deleted(*key),
    ),
    _Kind(
        name="node_metric",
        resource=resources.NODE_METRICS,
        decode=NodeMetric,
        field_selector=None,
        held=comparison.metrics_held,
        knows=comparison.knows_metric,
        holds=comparison.holds_metric,
        changed=lambda cluster, metric, _now: cluster.metric_changed(metric),
        deleted=lambda cluster, key: cluster.metric_deleted(key[1]),
    ),
)


def no_drift() -> dict[str, int]:
    """Count of what was mended by kind, before anything was."""
    return {**{kind.name: 0 for kind in _KINDS}, "sums": 0}


class Rebuild:
    """Compares one cluster state with the apiserver, and counts in `drift` what it mended."""

    def __init__(
        self,
        api: session.Session,
        cluster: Cluster,
        drift: dict[str, int],
        clock: Callable[[], float],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._sleep = sleep
        self._clock = clock
        self.drift = drift
        self.completed = 0

    async def run_every(self, interval_seconds: float) -> None:
        """Compare at this interval, for ever; a failure is logged and waits for the next time."""
        while True:
            await self._sleep(interval_seconds)
            try:
                await self.run()
            except errors.ApiServerError as error:
                log.warning("the state was not compared with the apiserver: %s; trying again in time", error)

    async def run(self) -> None:
        """Compare everything once and mend it. Raises errors.ApiServerError."""
        for kind in _KINDS:
            suspects = await self._suspects(kind)
            if suspects:
                await self._sleep(PAUSE_SECONDS)
            for key in suspects[:_MOST_SUSPECTS]:
                await self._judge(kind, key)
        await self._sum_up()
        self.completed += 1
        log.info("compared with the apiserver; mended since the start: %s", self.drift)

    async def _suspects(self, kind: _Kind) -> list[comparison.Key]:
        """Keys of the objects that differ at first sight, missing ones included."""
        suspects: list[comparison.Key] = []
        listed = DigestSet()
        pages = objects.list_pages(
            self._api,
            kind.resource,
            namespace=None,
            parameters=objects.selectors(kind.field_selector, None),
            page_size=informer.PAGE_SIZE,
        )
        async for page in pages:
            for item in page.items or ():
                key = decoding.identify(item, kind.resource.kind).key
                listed.add(hash(key))
                if not self._holds(kind, key, item):
                    suspects.append(key)
                await asyncio.sleep(0)
        for turn, held in enumerate(kind.held(self._cluster)):
            if hash(held) not in listed:
                suspects.append(held)
            if turn % informer.PAGE_SIZE == 0:
                await asyncio.sleep(0)
        return suspects

    def _holds(self, kind: _Kind, key: decoding.Key, item: msgspec.Raw) -> bool:
        try:
            listed = decoding.decode_object(item, kind.resource.kind, key, kind.decode)
        except errors.DecodeError:
            return True  # the watch says so, and what was known stays
        return kind.holds(self._cluster, listed)

    async def _judge(self, kind: _Kind, key: comparison.Key) -> None:
        """Read one object on its own until it agrees; mend the state if it never does."""
        newest = None
        for reading in range(_READINGS):
            if reading:
                await self._sleep(PAUSE_SECONDS)
            newest = await self._read(kind, key)
            if kind.holds(self._cluster, newest) if newest is not None else not kind.knows(self._cluster, key):
                return
        self.drift[kind.name] += 1
        log.warning("%s %s was not what the apiserver has, mended", kind.name, "/".join(filter(None, key)))
        kind.deleted(self._cluster, key)
        if newest is not None:
            kind.changed(self._cluster, newest, self._clock())

    async def _read(self, kind: _Kind, key: comparison.Key) -> Any:
        namespace, name = key
        try:
            return await objects.get(self._api, kind.resource, name, namespace=namespace or None, decode=kind.decode)
        except errors.NotFound:
            return None

    async def _sum_up(self) -> None:
        for name in list(self._cluster.entries):
            entry = self._cluster.entries.get(name)
            if entry is not None and not comparison.sums_are_right(entry):
                self.drift["sums"] += 1
                log.warning("the sums of node %s were not those of its pods, mended", name)
                entry.load = entry.load.from_scratch()
                self._cluster.vectors.write(entry)
            await asyncio.sleep(0)

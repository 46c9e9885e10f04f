"""List the whole cluster again at an interval, and repair objects that differ in the state.

Such a difference is called drift, and is a bug. A list is a moment older or newer than the watch, so a difference is
only suspect at first. It is drift if the object, read on its own and again after a pause, still differs. The state
stays in use: only differing objects are replaced, one per turn of the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from api_types.kubernetes import pods
from apiserver_client import decoding, errors, objects, resources, session
from scheduler_plugin.state import informer, node_metric_decoder, pod_info
from scheduler_plugin.state.cluster import Cluster, slim
from scheduler_plugin.state.digest_set import DigestSet
from scheduler_plugin.state.node_columns import NodeEntry
from scheduler_plugin.state.node_metric_decoder import NodeMetric

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 5.0  # within this time the watch delivers the changes that the list contained
_READS: Final = 3
_MOST_SUSPECTS: Final = 500  # more mean a stopped watch, which has its own alert; the next resync finds them again

Key = tuple[str, str]
"""Namespace and name."""


def _equals_node(cluster: Cluster, node: pods.Node) -> bool:
    """Return whether the state has this node object."""
    entry = cluster.entries.get(node.metadata.name)
    return entry is not None and entry.node == slim(node)


def _equals_metric(cluster: Cluster, metric: NodeMetric) -> bool:
    """Return whether this is the node's newest report in the state."""
    entry = cluster.entries.get(metric.metadata.name)
    return entry is not None and entry.load.report == node_metric_decoder.read(metric, cluster.resources)


def _equals_pod(cluster: Cluster, pod: pods.Pod) -> bool:
    """Return whether the pod counts on its node, or on none if it should not count."""
    found = cluster.find_pod(pod)
    should_be_on = pod.spec.node_name if pod_info.counts_on_its_node(pod) else ""
    if found is None or not should_be_on:  # a pod that should not count: nor may another one of its name
        return not should_be_on and not cluster.shows_pod(pod.metadata.namespace, pod.metadata.name)
    cached_on, record = found
    return cached_on == should_be_on and record.observed and record.signature == pod_info.signature(pod)


def _sums_match(entry: NodeEntry) -> bool:
    """Return whether the incrementally updated sums equal those of the pods and the report."""
    return entry.load.sums() == entry.load.from_scratch().sums()


def _has_node(cluster: Cluster, key: Key) -> bool:
    """Return whether the state has a node of that name."""
    entry = cluster.entries.get(key[1])
    return entry is not None and entry.node is not None


def _has_metric(cluster: Cluster, key: Key) -> bool:
    """Return whether the state has a report of that name."""
    entry = cluster.entries.get(key[1])
    return entry is not None and entry.load.report is not None


def _has_pod(cluster: Cluster, key: Key) -> bool:
    """Return whether the watch has shown a pod of that name on a node."""
    return cluster.shows_pod(*key)


def _cached_nodes(cluster: Cluster) -> Iterator[Key]:
    """Iterate over the nodes whose object is known."""
    return (("", name) for name, entry in list(cluster.entries.items()) if entry.node is not None)


def _cached_metrics(cluster: Cluster) -> Iterator[Key]:
    """Iterate over the nodes whose report is known."""
    return (("", name) for name, entry in list(cluster.entries.items()) if entry.load.report is not None)


def _cached_pods(cluster: Cluster) -> Iterator[Key]:
    """Iterate over the pods that the watch has shown on a node."""
    for entry in list(cluster.entries.values()):
        for pod in list(entry.load.pods.values()):
            if pod.observed:
                namespace, _, name = pod.key.partition("/")
                yield namespace, name


class _Kind(NamedTuple):
    """Functions that read, compare and repair the objects of one kind."""

    name: str
    resource: resources.Resource
    decode: type[Any]
    field_selector: str | None
    cached: Callable[[Cluster], Iterator[Key]]
    has: Callable[[Cluster, Key], bool]
    equals: Callable[[Cluster, Any], bool]
    changed: Callable[[Cluster, Any, float], None]
    deleted: Callable[[Cluster, Key], None]


_KINDS: Final = (
    _Kind(
        name="node",
        resource=resources.NODES,
        decode=pods.Node,
        field_selector=None,
        cached=_cached_nodes,
        has=_has_node,
        equals=_equals_node,
        changed=lambda cluster, node, _now: cluster.node_changed(node),
        deleted=lambda cluster, key: cluster.node_deleted(key[1]),
    ),
    _Kind(
        name="pod",
        resource=resources.PODS,
        decode=pods.Pod,
        field_selector=informer.RUNNING_SOMEWHERE,
        cached=_cached_pods,
        has=_has_pod,
        equals=_equals_pod,
        changed=Cluster.pod_changed,
        deleted=lambda cluster, key: cluster.pod_deleted(*key),
    ),
    _Kind(
        name="node_metric",
        resource=resources.NODE_METRICS,
        decode=NodeMetric,
        field_selector=None,
        cached=_cached_metrics,
        has=_has_metric,
        equals=_equals_metric,
        changed=lambda cluster, metric, _now: cluster.metric_changed(metric),
        deleted=lambda cluster, key: cluster.metric_deleted(key[1]),
    ),
)


def no_drift() -> dict[str, int]:
    """Return a count of 0 for each kind of drift."""
    return {**{kind.name: 0 for kind in _KINDS}, "sums": 0}


class Resync:
    """Resync of one cluster state with the apiserver; `drift` counts the repairs by kind."""

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
        """Compare at this interval until cancelled; log a failure of any kind and wait for the next interval."""
        while True:
            await self._sleep(interval_seconds)
            try:
                await self.run()
            except errors.ApiServerError as error:
                log.warning("resync failed: %s; retrying in %g s", error, interval_seconds)
            except Exception:
                log.exception("resync failed; retrying in %g s", interval_seconds)

    async def run(self) -> None:
        """Compare all objects once and repair the differing ones; one kind does not wait for another.

        Raises errors.ApiServerError, of the first kind that cannot be read.
        """
        failures = []
        for kind in _KINDS:
            try:
                await self._compare(kind)
            except errors.ApiServerError as error:
                failures.append(error)
        await self._check_sums()
        if failures:
            raise failures[0]
        self.completed += 1
        log.info("resync completed; repairs since the start: %s", self.drift)

    async def _compare(self, kind: _Kind) -> None:
        suspects = await self._suspects(kind)
        if suspects:
            await self._sleep(PAUSE_SECONDS)
        for key in suspects[:_MOST_SUSPECTS]:
            await self._verify(kind, key)

    async def _suspects(self, kind: _Kind) -> list[Key]:
        """Return the keys of the objects that differ from the list, missing ones included."""
        suspects: list[Key] = []
        listed = DigestSet()
        items = objects.list_items(
            self._api,
            kind.resource,
            namespace=None,
            parameters=objects.selectors(kind.field_selector, None),
            page_size=informer.PAGE_SIZE,
        )
        async with contextlib.aclosing(items):
            async for item in items:
                if isinstance(item, decoding.PageMetadata):
                    continue
                key = decoding.identify(item, kind.resource.kind).key
                listed.add(hash(key))
                if not self._equals(kind, key, item):
                    suspects.append(key)
                await asyncio.sleep(0)
        for turn, cached_key in enumerate(kind.cached(self._cluster)):
            if hash(cached_key) not in listed:
                suspects.append(cached_key)
            if turn % informer.PAGE_SIZE == 0:
                await asyncio.sleep(0)
        return suspects

    def _equals(self, kind: _Kind, key: decoding.Key, item: msgspec.Raw) -> bool:
        try:
            listed = decoding.decode_object(item, kind.resource.kind, key, kind.decode)
        except errors.DecodeError:
            return True  # the watch logs it, and the last decodable version stays
        return kind.equals(self._cluster, listed)

    async def _verify(self, kind: _Kind, key: Key) -> None:
        """Read one object on its own until it agrees; repair the state if it still differs after all reads."""
        newest = None
        for attempt in range(_READS):
            if attempt:
                await self._sleep(PAUSE_SECONDS)
            newest = await self._read(kind, key)
            if kind.equals(self._cluster, newest) if newest is not None else not kind.has(self._cluster, key):
                return
        self.drift[kind.name] += 1
        log.warning(
            "%s %s: cached object differed from the apiserver, replaced", kind.name, "/".join(filter(None, key))
        )
        kind.deleted(self._cluster, key)
        if newest is not None:
            kind.changed(self._cluster, newest, self._clock())

    async def _read(self, kind: _Kind, key: Key) -> Any:
        namespace, name = key
        try:
            return await objects.get(self._api, kind.resource, name, namespace=namespace or None, decode=kind.decode)
        except errors.NotFound:
            return None

    async def _check_sums(self) -> None:
        for name in list(self._cluster.entries):
            entry = self._cluster.entries.get(name)
            if entry is not None and not _sums_match(entry):
                self.drift["sums"] += 1
                log.warning("node %s: cached totals did not match its pods, recomputed", name)
                entry.load = entry.load.from_scratch()
                self._cluster.vectors.write(entry)
            await asyncio.sleep(0)

"""Periodic resync: compare the store with the apiserver, repair it, and requeue every node.

A watch can die without an error, and kopf does not deliver deletions that happened while its watch was expired. The
resync lists names and versions only; each difference is read by itself, after a grace period for the watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from api_types.kubernetes import pods
from apiserver_client import decoding, errors, objects, resources, session
from manager.cache.store import ClusterStore, NodeMetric, NodeStore, Store
from manager.cache.watch_health import WatchAges
from manager.metrics import Telemetry
from manager.slo_config.controller import ConfigController

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 5.0  # a live watch of 5,000 busy objects is never this far behind


class Resync:
    """`add` gets the names of the nodes to reconcile; `sleep` waits."""

    def __init__(
        self,
        api: session.Session,
        *,
        cache: ClusterStore,
        config: ConfigController,
        add: Callable[[str], None],
        ages: WatchAges,
        telemetry: Telemetry,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._cache = cache
        self._config = config
        self._add = add
        self._ages = ages
        self._telemetry = telemetry
        self._sleep = sleep

    async def run(self, period_seconds: float) -> None:
        """Resync every period until cancelled; a failure is counted and retried a period later."""
        while True:
            await self._sleep(period_seconds)
            try:
                await self.once()
            except errors.ApiServerError as error:
                self._telemetry.resyncs.labels("error").inc()
                log.warning("resync failed: %s; retrying in %g s", error, period_seconds)
            else:
                self._telemetry.resyncs.labels("ok").inc()

    async def once(self) -> None:
        """Repair the store and requeue every node. Raises errors.ApiServerError."""
        await self._repair(resources.NODES, self._cache.nodes, pods.Node)
        await self._repair(resources.NODE_METRICS, self._cache.node_metrics, NodeMetric)
        await self._config.refresh()
        for name in self._cache.nodes.names():
            self._add(name)

    async def _repair(self, resource: resources.Resource, known: NodeStore | Store[NodeMetric], view: type) -> None:
        listing = await objects.list_all(self._api, resource, decode=decoding.Envelope, metadata_only=True)
        listed = {each.metadata.name: each.metadata.resource_version for each in listing.items}
        if not known.stale(listed, listing.resource_version):
            return
        await self._sleep(GRACE_SECONDS)
        missed = []
        for name in known.stale(listed, listing.resource_version):
            try:
                known.update(await objects.get(self._api, resource, name, decode=view))
            except errors.NotFound:
                known.remove(name)
            except errors.DecodeError as error:
                log.warning("keeping the last decodable version: %s", error)
                continue  # the watch delivered it, and could not decode it either
            missed.append(name)
            self._add(name)
        if missed:
            self._ages.missed(resource.plural)
            self._telemetry.missed_changes.labels(resource.plural).inc(len(missed))
            log.warning("the watch of %s missed %d changes: %s", resource.plural, len(missed), ", ".join(missed[:3]))

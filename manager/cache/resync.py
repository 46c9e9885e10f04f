"""Now and then: compare the picture with what the apiserver has, mend it, and have every node worked out anew.

A watch can die without a word, and kopf tells nobody of what was deleted while it had none. Only names and versions are
listed; what differs is read one by one, after the watch had time to bring it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from api_types.kubernetes import pods
from apiserver_client import decoding, errors, objects, resources, session
from manager.cache.store import ClusterStore, NodeMetric, Store
from manager.cache.watch_health import WatchAges
from manager.metrics import Telemetry
from manager.slo_config.controller import ConfigController

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 5.0  # a watch of 5,000 busy objects is never this far behind, unless it is dead


class Resync:
    """`mark` is told the nodes to work on; `sleep` waits."""

    def __init__(
        self,
        api: session.Session,
        *,
        picture: ClusterStore,
        config: ConfigController,
        mark: Callable[[str], None],
        ages: WatchAges,
        telemetry: Telemetry,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._picture = picture
        self._config = config
        self._mark = mark
        self._ages = ages
        self._telemetry = telemetry
        self._sleep = sleep

    async def run(self, period_seconds: float) -> None:
        """Do it every period until cancelled; what fails is counted and tried again a period later."""
        while True:
            await self._sleep(period_seconds)
            try:
                await self.once()
            except errors.ApiServerError as error:
                self._telemetry.resyncs.labels("error").inc()
                log.warning("cannot compare with the apiserver: %s", error)
            else:
                self._telemetry.resyncs.labels("ok").inc()

    async def once(self) -> None:
        """Mend the picture and mark every node. Raises errors.ApiServerError."""
        await self._mend(resources.NODES, self._picture.nodes, pods.Node)
        await self._mend(resources.NODE_METRICS, self._picture.node_metrics, NodeMetric)
        await self._config.refresh()
        for name in self._picture.nodes.names():
            self._mark(name)

    async def _mend(
        self, resource: resources.Resource, known: Store[pods.Node] | Store[NodeMetric], view: type
    ) -> None:
        listing = await objects.list_all(self._api, resource, decode=decoding.Envelope, metadata_only=True)
        listed = {each.metadata.name: each.metadata.resource_version for each in listing.items}
        if not known.differing(listed, listing.resource_version):
            return
        await self._sleep(GRACE_SECONDS)
        missed = []
        for name in known.differing(listed, listing.resource_version):
            try:
                known.remember(await objects.get(self._api, resource, name, decode=view))
            except errors.NotFound:
                known.forget(name)
            except errors.DecodeError as error:
                log.warning("left as it was last understood: %s", error)
                continue  # the watch brought it, and could not read it either
            missed.append(name)
            self._mark(name)
        if missed:
            self._ages.missed(resource.plural)
            self._telemetry.missed_changes.labels(resource.plural).inc(len(missed))
            log.warning("the watch of %s missed %d changes: %s", resource.plural, len(missed), ", ".join(missed[:3]))

"""Periodic resync: compare the store with the apiserver, repair it, and requeue every node and the configuration.

A watch can die without an error, and kopf does not deliver deletions that happened while its watch was expired. The
resync lists names and versions only; each difference is read by itself, after a grace period for the watch.

A list whose version is below a stored one comes from an etcd that was restored from a backup: the stored objects are
replaced, and the watches begin again, because a watch from a version of the future delivers nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from api_types.kubernetes import pods
from apiserver_client import decoding, errors, objects, resources, session
from manager.cache.store import ClusterStore, ConfigMap, NodeMetric, Store, version_number
from manager.cache.watch_health import WatchAges
from manager.metrics.telemetry import Telemetry
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 5.0  # a live watch of 5,000 busy objects is never this far behind


@dataclass(frozen=True)
class _Watched:
    """A kind of objects, as the watch selects them; `add` gets the name of each object that differs."""

    resource: resources.Resource
    store: Store[Any]
    view: type
    add: Callable[[str], None]
    namespace: str | None = None
    name: str | None = None

    async def list(self, api: session.Session, **given: Any) -> objects.Listing[Any]:
        selector = f"metadata.name={self.name}" if self.name else None
        return await objects.list_all(api, self.resource, namespace=self.namespace, field_selector=selector, **given)


class Resync:
    """`add` gets the names of the nodes to reconcile, `add_config` is called for the ConfigMap; `sleep` waits.

    `restart_watches` is called where the versions of the apiserver went back.
    """

    def __init__(
        self,
        api: session.Session,
        *,
        cache: ClusterStore,
        settings: ManagerSettings,
        add: Callable[[str], None],
        add_config: Callable[[], None],
        ages: WatchAges,
        telemetry: Telemetry,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._cache = cache
        self._add = add
        self._add_config = add_config
        self._ages = ages
        self._telemetry = telemetry
        self._sleep = sleep
        self._requested = asyncio.Event()
        self.restart_watches: Callable[[], None] = lambda: None
        self._watched = (
            _Watched(resources.NODES, cache.nodes, pods.Node, add),
            _Watched(resources.NODE_METRICS, cache.node_metrics, NodeMetric, add),
            _Watched(
                resources.CONFIG_MAPS, cache.config_maps, ConfigMap, lambda _: add_config(),
                settings.namespace, settings.config_map,
            ),
        )  # fmt: skip

    def request(self) -> None:
        """Ask for a resync before its period is over."""
        self._requested.set()

    async def run(self, period_seconds: float) -> None:
        """Resync every period, and when requested, until cancelled; a failure is counted and retried a period later."""
        while True:
            await self._pause(period_seconds)
            try:
                await self.once()
            except errors.ApiServerError as error:
                self._telemetry.resyncs.labels("error").inc()
                log.warning("resync failed: %s; retrying in %g s", error, period_seconds)
            else:
                self._telemetry.resyncs.labels("ok").inc()

    async def _pause(self, period_seconds: float) -> None:
        waits = [asyncio.ensure_future(self._sleep(period_seconds)), asyncio.ensure_future(self._requested.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if self._requested.is_set():
            await self._sleep(GRACE_SECONDS)
            self._requested.clear()

    async def once(self) -> None:
        """Repair the store, then requeue every node and the configuration; one kind does not wait for another.

        Raises errors.ApiServerError, of the first kind that cannot be listed.
        """
        failures = []
        for watched in self._watched:
            try:
                await self._repair(watched)
            except errors.ApiServerError as error:
                failures.append(error)
        for name in self._cache.nodes.names():
            self._add(name)
        self._add_config()
        if failures:
            raise failures[0]

    async def _repair(self, watched: _Watched) -> None:
        known = watched.store
        newest = known.newest_version  # before the request: a list is never older than what was known then
        listing = await watched.list(self._api, decode=decoding.Envelope, metadata_only=True)
        if version_number(listing.resource_version) < newest:
            await self._replace(watched, newest, listing.resource_version)
            return
        listed = {each.metadata.name: each.metadata.resource_version for each in listing.items}
        if known.stale(listed, listing.resource_version):
            await self._sleep(GRACE_SECONDS)
            missed = [name for name in known.stale(listed, listing.resource_version) if await self._read(watched, name)]
            for name in missed:
                watched.add(name)
            if missed:
                self._count_missed(watched.resource, missed)
        known.note_list()

    async def _read(self, watched: _Watched, name: str) -> bool:
        """Read an object that differs; return False where the watch has missed nothing."""
        before = watched.store.get(name)
        try:
            found = await objects.get(
                self._api, watched.resource, name, namespace=watched.namespace, decode=watched.view
            )
        except errors.NotFound:
            if before is not None:  # one that was created meanwhile has another UID
                watched.store.remove(name, before.metadata.uid)
        except errors.DecodeError as error:
            log.warning("keeping the last decodable version: %s", error)
            return False  # the watch delivered it, and could not decode it either
        else:
            if before is not None and watched.store.get(name) is None:
                return False  # the watch has delivered its deletion meanwhile
            watched.store.update(found)
        return True

    async def _replace(self, watched: _Watched, newest: int, version: str) -> None:
        """Store what exists, whatever its versions are, and let the watches begin at the present version."""
        before = watched.store.names()
        listing = await watched.list(self._api, decode=watched.view, on_unreadable=log.warning)
        watched.store.replace(listing.items)
        log.warning(
            "the versions of %s went back from %d to %s, as after a restore of etcd: replaced what was stored by the "
            "%d objects that exist, and restarting the watches", watched.resource.plural, newest, version,
            len(listing.items),
        )  # fmt: skip
        for name in {*before, *watched.store.names()}:
            watched.add(name)
        self.restart_watches()

    def _count_missed(self, resource: resources.Resource, missed: list[str]) -> None:
        self._ages.missed(resource.plural)
        self._telemetry.missed_changes.labels(resource.plural).inc(len(missed))
        log.warning("the watch of %s missed %d changes: %s", resource.plural, len(missed), ", ".join(missed[:3]))

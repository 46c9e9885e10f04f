"""Watch of the ConfigMap: its events by kopf, and a read of its own at each new leader and each hour.

kopf misses a deletion while its watch has expired, and delivers nothing after a restore of etcd.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import kopf
import msgspec

from apiserver_client import connection, errors, objects, resources, session
from apiserver_client.decoding import version_number
from manager.cache import kopf_thread
from manager.cache.kopf_thread import KopfThread
from manager.cache.object_watches import EventSink
from manager.cache.store import ConfigMap, ConfigMapStore
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)

READ_SECONDS: Final = 3600.0
_EXIT_SECONDS: Final = 10.0
_PLURAL: Final = resources.CONFIG_MAPS.plural


class ConfigWatch:
    """`sink` gets each change, `on_event` is called for each event; `identity` is that of this manager."""

    def __init__(
        self,
        to: connection.Connection,
        settings: ManagerSettings,
        sink: EventSink,
        *,
        on_event: Callable[[str], None],
        identity: str,
    ) -> None:
        self._to = to
        self._settings = settings
        self._sink = sink
        self._on_event = on_event
        self._identity = identity
        self._thread: KopfThread | None = None

    @property
    def has_ended(self) -> bool:
        """Return whether kopf has ended by itself."""
        return self._thread is not None and not self._thread.is_alive()

    async def follow(self, on_ready: Callable[[], None]) -> None:
        """Watch until cancelled; `on_ready` is called once kopf has started."""
        loop, registry, settings = asyncio.get_running_loop(), kopf_thread.new_registry(self._to), self._settings

        @kopf.on.event("", "v1", _PLURAL, registry=registry)
        async def config_map(event: kopf.RawEvent, **_: Any) -> None:
            loop.call_soon_threadsafe(self._deliver, event["type"], event["object"])

        chosen = kopf_thread.new_settings()
        chosen.watching.field_selectors["", "v1", _PLURAL] = f"metadata.name={settings.config_map}"
        thread = KopfThread(registry, chosen, identity=self._identity, namespaces=[settings.namespace])
        thread.start()
        self._thread = thread
        try:
            await asyncio.shield(asyncio.wrap_future(thread.ready))
            on_ready()
            await asyncio.Event().wait()
        finally:
            self._thread = None
            thread.stop.set()
            await asyncio.to_thread(thread.join, _EXIT_SECONDS)

    def _deliver(self, kind: str | None, wire: Mapping[str, Any]) -> None:
        self._on_event(_PLURAL)
        metadata = wire["metadata"]
        if kind == "DELETED":
            self._sink.deleted(_PLURAL, metadata["name"], metadata.get("uid"))
            return
        try:
            self._sink.updated(_PLURAL, self._sink.decode(_PLURAL, wire))
        except msgspec.ValidationError as error:
            log.warning("cannot decode ConfigMap %s: %s", metadata["name"], error)


async def read(api: session.Session, settings: ManagerSettings, store: ConfigMapStore) -> None:
    """Read the ConfigMap, whatever version of it is stored. Raises ApiServerError."""
    name, newest = settings.config_map, store.newest_version
    before = store.get(name)
    try:
        config_map = await objects.get(api, resources.CONFIG_MAPS, name, namespace=settings.namespace, decode=ConfigMap)
    except errors.NotFound:
        store.remove(name, before.metadata.uid if before else None)
        store.note_list()
        return
    if version_number(config_map.metadata.resource_version) < newest:  # etcd was restored
        store.replace([config_map])
    else:
        store.update(config_map)


async def read_hourly(
    api: session.Session,
    settings: ManagerSettings,
    store: ConfigMapStore,
    on_read: Callable[[], None],
) -> None:
    """Read the ConfigMap each hour; `on_read` decides on what was read."""
    while True:
        await asyncio.sleep(READ_SECONDS)
        try:
            await read(api, settings, store)
        except errors.ApiServerError as error:
            log.warning("cannot read ConfigMap %s: %s; trying again in an hour", settings.config_map, error)
        on_read()

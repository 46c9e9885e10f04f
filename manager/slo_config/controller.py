"""Follows the ConfigMap: keeps the last good configuration, also over a restart, and says what is wrong with a bad one.

The last document that could be used is kept in a ConfigMap of the manager's own, so that a manager that starts while
the users' one is broken goes on as the one before it did. What makes it judge again is the document alone: what is
noted on the ConfigMap never does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from api_types import names
from apiserver_client import errors, objects, resources, session
from manager.metrics import Telemetry
from manager.settings import ManagerSettings
from manager.slo_config import evaluation
from manager.slo_config.events import Metadata, Notices
from manager.slo_config.strategy import Configuration, NodeStrategy, Strategies

log = logging.getLogger(__name__)


class ConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap."""

    metadata: Metadata = Metadata()
    data: dict[str, str] | None = None


async def read(api: session.Session, namespace: str, name: str) -> ConfigMap | None:
    """Read a ConfigMap; None where there is none. Raises errors.ApiServerError."""
    try:
        return await objects.get(api, resources.CONFIG_MAPS, name, namespace=namespace, decode=ConfigMap)
    except errors.NotFound:
        return None


class ConfigController:
    """`strategies` is what holds now; None until a configuration could be used."""

    def __init__(
        self,
        api: session.Session,
        settings: ManagerSettings,
        notices: Notices,
        telemetry: Telemetry,
        on_change: Callable[[], None],
    ) -> None:
        self.strategies: Strategies | None = None
        self._api = api
        self._settings = settings
        self._notices = notices
        self._telemetry = telemetry
        self._on_change = on_change
        self._version = 0
        self._stored: str | None = None
        self._judged: tuple[bool, str | None] | None = None
        self._last_good: str | None = None

    async def start(self) -> None:
        """Read what was last good, then what is there now. Raises errors.ApiServerError."""
        stored = await read(self._api, self._settings.namespace, self._settings.last_good_config_map)
        data = stored.data if stored else None
        self._stored = (data or {}).get(names.COLOCATION_CONFIG_KEY)
        if (last_good := evaluation.restored(data)) is not None:
            self._put_in_force(last_good)
        elif self._stored is not None:
            log.warning(
                "the document kept in ConfigMap %s can no longer be used: python -m manager check-config names why",
                self._settings.last_good_config_map,
            )
        await self.refresh()

    async def refresh(self) -> None:
        """Take the ConfigMap as it is now, and keep what could not be kept before. Raises errors.ApiServerError."""
        await self.apply(await read(self._api, self._settings.namespace, self._settings.config_map))
        await self._store()

    async def apply(self, config_map: ConfigMap | None) -> None:
        """Take a state of the ConfigMap; None means that there is none. An older one than was seen is left."""
        if config_map is not None:
            version = int(config_map.metadata.resource_version or 0)
            if version < self._version:
                return
            self._version = version
        data = config_map.data if config_map else None
        seen = (config_map is not None, evaluation.document_text(data))
        if seen == self._judged:
            return  # its metadata changed, or another key
        in_force = self.strategies.configuration if self.strategies else None
        outcome = evaluation.synced(in_force, data, exists=config_map is not None)
        if outcome.configuration is not None and (outcome.changed or self.strategies is None):
            self._put_in_force(outcome.configuration)
        if outcome.state is not evaluation.State.REFUSED:
            self._last_good = outcome.text or ""
        self._judged = seen  # before anything is awaited: a newer state may be taken meanwhile
        self._telemetry.set_config_state(outcome.state)
        self._telemetry.config_problems.set(len(outcome.problems))
        if config_map is None:
            log.warning(
                "there is no ConfigMap %s: the defaults are in force, colocation is off", self._settings.config_map
            )
        else:
            already_said = (outcome.text or "") == self._stored
            await self._notices.tell(outcome, config_map.metadata, applied_before=already_said)
        await self._store()

    async def tell_overlap(self, node: str, strategy: NodeStrategy) -> None:
        """Tell of entries that a node shows to overlap."""
        if self.strategies is not None:
            await self._notices.tell_overlap(self.strategies.configuration, node, strategy)

    def _put_in_force(self, configured: Configuration) -> None:
        self.strategies = Strategies(configured)
        self._telemetry.config_generation.inc()
        self._on_change()

    async def _store(self) -> None:
        """Keep the document in force, where that is not kept yet, even after a later one was refused."""
        text = self._last_good
        if text is None or text == self._stored:
            return
        name, namespace = self._settings.last_good_config_map, self._settings.namespace
        data = {names.COLOCATION_CONFIG_KEY: text}
        try:
            with self._telemetry.write("last_good_config"):
                await self._upsert(name, namespace, data)
        except errors.ApiServerError as error:
            log.warning("cannot keep the configuration for a restart: %s", error)
        else:
            self._stored = text

    async def _upsert(self, name: str, namespace: str, data: dict[str, str]) -> None:
        try:
            await objects.merge_patch(self._api, resources.CONFIG_MAPS, name, {"data": data}, namespace=namespace)
        except errors.NotFound:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "annotations": {"kubernetes.io/description": _DESCRIPTION}},
                "data": data,
            }
            await objects.create(self._api, resources.CONFIG_MAPS, body, namespace=namespace)


_DESCRIPTION = (
    "The last colocation-config that koord-manager could use, written by it. Edit slo-controller-config instead."
)

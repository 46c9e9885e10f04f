"""Controller of the ConfigMap: keeps the last valid configuration in force, also over a restart, and reports problems.

The last valid document is stored in a ConfigMap of the manager's own, so that a manager that starts while the users'
document is invalid continues with the configuration of its predecessor. The document is evaluated again only when its
text changes; changes to the ConfigMap's metadata, including the manager's own annotation, are ignored.
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
from manager.slo_config.events import ConfigReporter, Metadata
from manager.slo_config.strategy import Configuration, Strategies

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
    """`strategies` is the configuration in force; None until a document was valid."""

    def __init__(
        self,
        api: session.Session,
        settings: ManagerSettings,
        reporter: ConfigReporter,
        telemetry: Telemetry,
        on_change: Callable[[], None],
    ) -> None:
        self.strategies: Strategies | None = None
        self._api = api
        self._settings = settings
        self._reporter = reporter
        self._telemetry = telemetry
        self._on_change = on_change
        self._version = 0
        self._stored: str | None = None
        self._evaluated: tuple[bool, str | None] | None = None
        self._last_good: str | None = None

    async def start(self) -> None:
        """Restore the last valid document, then apply the present one. Raises errors.ApiServerError."""
        stored = await read(self._api, self._settings.namespace, self._settings.last_good_config_map)
        data = stored.data if stored else None
        self._stored = (data or {}).get(names.COLOCATION_CONFIG_KEY)
        if (last_good := evaluation.restore(data)) is not None:
            self._put_in_force(last_good)
        elif self._stored is not None:
            log.warning(
                "the document stored in ConfigMap %s is no longer valid; `python -m manager check-config` lists why",
                self._settings.last_good_config_map,
            )
        await self.refresh()

    async def refresh(self) -> None:
        """Apply the present ConfigMap, and retry a store that failed before. Raises errors.ApiServerError."""
        await self.apply(await read(self._api, self._settings.namespace, self._settings.config_map))
        await self._store()

    async def apply(self, config_map: ConfigMap | None) -> None:
        """Apply a state of the ConfigMap, None where it is absent. An older state than the last one is ignored."""
        if config_map is not None:
            version = int(config_map.metadata.resource_version or 0)
            if version < self._version:
                return
            self._version = version
        data = config_map.data if config_map else None
        seen = (config_map is not None, evaluation.document_text(data))
        if seen == self._evaluated:
            return  # its metadata changed, or another key
        in_force = self.strategies.configuration if self.strategies else None
        outcome = evaluation.evaluate(in_force, data, exists=config_map is not None)
        if outcome.configuration is not None and (outcome.changed or self.strategies is None):
            self._put_in_force(outcome.configuration)
        if outcome.state is not evaluation.State.REFUSED:
            self._last_good = outcome.text or ""
        self._evaluated = seen  # before the first await: a newer state may be applied meanwhile
        self._telemetry.set_config_state(outcome.state)
        self._telemetry.config_problems.set(len(outcome.problems))
        if config_map is None:
            log.warning(
                "ConfigMap %s is absent: the defaults are in force, colocation is off", self._settings.config_map
            )
        else:
            already_reported = (outcome.text or "") == self._stored
            await self._reporter.report(outcome, config_map.metadata, applied_before=already_reported)
        await self._store()

    def _put_in_force(self, configured: Configuration) -> None:
        self.strategies = Strategies(configured)
        self._telemetry.config_generation.inc()
        self._on_change()

    async def _store(self) -> None:
        """Store the document in force, where it is not stored yet, even after a later one was refused."""
        text = self._last_good
        if text is None or text == self._stored:
            return
        name, namespace = self._settings.last_good_config_map, self._settings.namespace
        data = {names.COLOCATION_CONFIG_KEY: text}
        try:
            with self._telemetry.write("last_good_config"):
                await self._upsert(name, namespace, data)
        except errors.ApiServerError as error:
            log.warning("cannot store the configuration in ConfigMap %s for a restart: %s", name, error)
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


_DESCRIPTION = "The last valid colocation-config, stored by koord-manager. Edit slo-controller-config instead."

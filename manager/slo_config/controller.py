"""Follows the ConfigMap: keeps the last good configuration, also over a restart, and says what is wrong with a bad one.

The last document that could be used is kept in a ConfigMap of the manager's own, so that a manager that starts while
the users' one is broken goes on as the one before it did.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from api_types import names
from api_types.config_problem import Effect, Problem
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.announcements import Announcer
from manager.settings import ManagerSettings
from manager.slo_config import strategy, sync
from manager.telemetry import Telemetry

log = logging.getLogger(__name__)

MOST_PROBLEMS_SAID = 20  # Events per document; the rest is counted in the last one


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """Identity of a ConfigMap."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class ConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap."""

    metadata: Metadata = Metadata()
    data: dict[str, str] | None = None


_REASONS = {
    Effect.DOCUMENT_REFUSED: "ColocationConfigRejected",
    Effect.LAYER_IGNORED: "ColocationConfigIgnored",
    Effect.ADVICE: "ColocationConfigAdvice",
}


class ConfigController:
    """`strategies` is what holds now; None until a configuration could be used."""

    def __init__(
        self,
        api: session.Session,
        settings: ManagerSettings,
        announcer: Announcer,
        telemetry: Telemetry,
        on_change: Callable[[], None],
    ) -> None:
        self.strategies: strategy.Strategies | None = None
        self._api = api
        self._settings = settings
        self._announcer = announcer
        self._telemetry = telemetry
        self._on_change = on_change
        self._stored: str | None = None
        self._judged: tuple[bool, str | None] | None = None

    async def start(self) -> None:
        """Read what was last good, then what is there now. Raises errors.ApiServerError."""
        stored = await self._read(self._settings.last_good_config_map)
        if stored is not None and names.COLOCATION_CONFIG_KEY in (stored.data or {}):
            self._stored = (stored.data or {})[names.COLOCATION_CONFIG_KEY]
            self._put_in_force(sync.synced(None, stored.data, exists=True))
        await self.apply(await self._read(self._settings.config_map))

    async def apply(self, config_map: ConfigMap | None) -> None:
        """Take a state of the ConfigMap; None means that there is none."""
        data = config_map.data if config_map else None
        seen = (config_map is not None, sync.document_text(data))
        if seen == self._judged:
            return  # its metadata changed, or another key
        in_force = self.strategies.configuration if self.strategies else None
        outcome = sync.synced(in_force, data, exists=config_map is not None)
        self._put_in_force(outcome)
        self._telemetry.set_config_state(outcome.state)
        self._telemetry.config_problems.set(len(outcome.problems))
        await self._announce(outcome, config_map)
        await self._store(outcome)
        self._judged = seen

    def _put_in_force(self, outcome: sync.Outcome) -> None:
        if outcome.configuration is None or not (outcome.changed or self.strategies is None):
            return
        self.strategies = strategy.Strategies(outcome.configuration)
        self._telemetry.config_generation.inc()
        self._on_change()

    async def _read(self, name: str) -> ConfigMap | None:
        try:
            return await objects.get(
                self._api, resources.CONFIG_MAPS, name, namespace=self._settings.namespace, decode=ConfigMap
            )
        except errors.NotFound:
            return None

    async def _announce(self, outcome: sync.Outcome, config_map: ConfigMap | None) -> None:
        metadata = config_map.metadata if config_map else Metadata(name=self._settings.config_map)
        about = Subject(
            resources.CONFIG_MAPS,
            metadata.name,
            metadata.uid,
            namespace=self._settings.namespace,
            resource_version=metadata.resource_version,
        )
        if config_map is None:
            text = f"there is no ConfigMap {metadata.name}: the defaults are in force, colocation is off"
            log.warning("%s", text)
            return
        for problem in outcome.problems[:MOST_PROBLEMS_SAID]:
            await self._announcer.say(about, "Warning", _REASONS[problem.effect], _said(problem))
        if len(outcome.problems) > MOST_PROBLEMS_SAID:
            rest = f"and {len(outcome.problems) - MOST_PROBLEMS_SAID} problems more"
            await self._announcer.say(about, "Warning", "ColocationConfigRejected", rest)
        if outcome.state is sync.State.REFUSED:
            kept = "the last good configuration stays" if outcome.configuration else "nothing is"
            log.warning("%s was refused: %s in force", metadata.name, kept)
            return
        if outcome.unused:
            text = f"accepted without effect, this project publishes no Batch resources: {', '.join(outcome.unused)}"
            await self._announcer.say(about, "Normal", "ColocationConfigUnused", text)
        if (outcome.text or "") != self._stored:
            await self._announcer.say(about, "Normal", "ColocationConfigApplied", _applied(outcome))

    async def _store(self, outcome: sync.Outcome) -> None:
        text = outcome.text or ""
        if outcome.state is sync.State.REFUSED or text == self._stored:
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


def _said(problem: Problem) -> str:
    return f"{names.COLOCATION_CONFIG_KEY}: {problem} ({problem.effect.value})"


def _applied(outcome: sync.Outcome) -> str:
    if outcome.configuration is None or not outcome.configuration.cluster.enable:
        return "the configuration is in force; colocation is off (enable is not true)"
    entries = len(outcome.configuration.entries)
    return f"the configuration is in force; colocation is on, {entries} nodeConfigs entries"

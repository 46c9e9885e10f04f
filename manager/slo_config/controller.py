"""Controller of the ConfigMap: keeps the last valid configuration in force, also over a restart, and reports problems.

The last valid document is stored in a ConfigMap of the manager's own, so that a manager that starts while the users'
document is invalid continues with the configuration of its predecessor. The document is evaluated again only when its
text changes, or the ConfigMap was replaced; changes to its metadata, including the manager's own annotation, are
ignored.

Level-based, as for nodes: an event only updates the store and adds a step to the configuration's own work queue. What
is in force is decided from the store, without waiting for anything; what is written follows in steps of its own, which
are repeated until they agree with the decision. An absent ConfigMap, and one without a document, are reported and
change nothing.

The annotation on the users' ConfigMap is the only write to it, at most one for each evaluated document (decision 0008).
"""

from __future__ import annotations

import datetime as dt
import enum
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from api_types import names
from api_types.colocation import advice
from api_types.colocation import document as colocation_document
from apiserver_client import backoff, errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache.store import ConfigMap, ConfigMapStore
from manager.events import EventRecorder, Severity
from manager.metrics.telemetry import Telemetry
from manager.settings import ManagerSettings
from manager.slo_config import evaluation
from manager.slo_config.strategy import Configuration, NodeStrategy, Strategies

log = logging.getLogger(__name__)


MOST_PROBLEM_EVENTS = 20  # Events per document; the last one counts the rest


@dataclass(eq=False)
class ConfigReporter:
    """Writes Events and the annotation; no decision waits for it."""

    api: session.Session
    settings: ManagerSettings
    recorder: EventRecorder
    telemetry: Telemetry
    clock: Callable[[], dt.datetime]

    def __post_init__(self) -> None:
        self._about: Subject | None = None
        self._overlaps: set[tuple[int, int]] = set()

    async def event(self, severity: Severity, reason: str, message: str) -> None:
        """Record an Event on the ConfigMap, also before it was read."""
        name, namespace = self.settings.config_map, self.settings.namespace
        about = self._about or Subject(resources.CONFIG_MAPS, name, "", namespace=namespace)
        await self.recorder.event(about, severity, reason, message)

    async def post_events(
        self,
        outcome: evaluation.ConfigOutcome,
        config_map: ConfigMap | None,
        *,
        applied_before: bool,
        is_current: Callable[[], bool],
    ) -> None:
        """Post the Events of an evaluated document, or of its absence, while it `is_current`.

        `applied_before` where a manager has reported this text already.
        """
        self._about = about = Subject(
            resources.CONFIG_MAPS,
            self.settings.config_map,
            config_map.metadata.uid if config_map else "",
            namespace=self.settings.namespace,
            resource_version=config_map.metadata.resource_version if config_map else "",
        )
        if outcome.changed:
            self._overlaps = set()
        for severity, reason, text in self._events(outcome, applied_before):
            if not is_current():
                return
            await self.recorder.event(about, severity, reason, text)

    def _events(
        self, outcome: evaluation.ConfigOutcome, applied_before: bool
    ) -> Iterator[tuple[Literal["Normal", "Warning"], str, str]]:
        for problem in outcome.problems[:MOST_PROBLEM_EVENTS]:
            text = f"{names.COLOCATION_CONFIG_KEY}: {problem.with_effect()}"
            yield "Warning", evaluation.REASONS[problem.effect], text
        if (more := len(outcome.problems) - MOST_PROBLEM_EVENTS) > 0:
            rest = f"and {more} more problems: `koordctl config check FILE` lists them all"
            yield "Warning", evaluation.reason(outcome), rest
        if outcome.unused:
            yield "Normal", evaluation.UNUSED, colocation_document.unused_text(outcome.unused)
        summary = evaluation.summary(outcome, kept_in=self.settings.last_good_config_map)
        if outcome.state is evaluation.State.REFUSED:
            log.warning("ConfigMap %s: %s", self.settings.config_map, summary)
        elif outcome.state is not evaluation.State.APPLIED:
            yield "Warning", evaluation.ABSENT, f"{summary}; {evaluation.OFF}"
        elif not applied_before:
            yield "Normal", evaluation.APPLIED, summary

    async def report_overlap(self, configured: Configuration, node: str, strategy: NodeStrategy) -> None:
        """Warn once per pair of nodeConfigs entries that both match a node.

        A pair that was reported from the document alone is not reported again.
        """
        if len(strategy.matching) < 2 or self._about is None:
            return
        if not self._overlaps:
            self._overlaps = set(advice.overlapping_entries(configured.document))
        first, *others = strategy.matching
        for other in others:
            if (first, other) not in self._overlaps:
                self._overlaps.add((first, other))
                problem = advice.overlap(configured.document, [first], other, node)
                text = f"{names.COLOCATION_CONFIG_KEY}: {problem.with_effect()}"
                await self.recorder.event(self._about, "Warning", evaluation.ADVICE, text)

    async def annotate(self, outcome: evaluation.ConfigOutcome, config_map: ConfigMap) -> ConfigMap | None:
        """Write the status annotation where it differs; return the ConfigMap as written.

        The apiserver refuses the patch where the ConfigMap was replaced meanwhile. Raises errors.ApiServerError.
        """
        before = (config_map.metadata.annotations or {}).get(names.ANNOTATION_COLOCATION_CONFIG_STATUS)
        kept_in = self.settings.last_good_config_map
        text = evaluation.annotation(outcome, before, self.clock(), kept_in=kept_in)
        if text is None:
            return None
        annotations = {names.ANNOTATION_COLOCATION_CONFIG_STATUS: text}
        patch = {"metadata": {"uid": config_map.metadata.uid, "annotations": annotations}}
        with self.telemetry.write("config_status"):
            return await objects.merge_patch(
                self.api, resources.CONFIG_MAPS, config_map.metadata.name, patch, namespace=self.settings.namespace,
                decode=ConfigMap,
            )  # fmt: skip


_DELAYS: Final = backoff.Backoff(first_seconds=2.0, longest_seconds=120.0)


class ConfigStep(enum.StrEnum):
    """Steps, the keys of the configuration's work queue: one worker for each at a time."""

    RESTORE = "restore the last good configuration"
    DECIDE = "decide what is in force"
    REPORT = "report on the ConfigMap"
    STORE = "store the configuration for a restart"


async def read(api: session.Session, namespace: str, name: str) -> ConfigMap | None:
    """Read a ConfigMap; None where there is none. Raises errors.ApiServerError."""
    try:
        return await objects.get(api, resources.CONFIG_MAPS, name, namespace=namespace, decode=ConfigMap)
    except errors.NotFound:
        return None


_Decided = tuple[str | None, str | None]
"""UID of a ConfigMap, None where it is absent, and its document."""


def _identity(config_map: ConfigMap | None) -> _Decided:
    if config_map is None:
        return None, None
    return config_map.metadata.uid, evaluation.document_text(config_map.data)


@dataclass(eq=False)
class ConfigController:
    """`strategies` is the configuration in force; None until a document was valid.

    `schedule` adds a step to the queue, after a delay in seconds; `on_change` is called when another configuration is
    in force; `clock` returns aware time.
    """

    api: session.Session
    settings: ManagerSettings
    config_maps: ConfigMapStore
    reporter: ConfigReporter
    telemetry: Telemetry
    on_change: Callable[[], None]
    schedule: Callable[[ConfigStep, float], None]
    clock: Callable[[], dt.datetime]

    def __post_init__(self) -> None:
        self.strategies: Strategies | None = None
        self._decided: _Decided | None = None
        self._outcome: evaluation.ConfigOutcome | None = None
        self._known_before = False
        """Whether a manager has reported the decided text already."""
        self._posted: _Decided | None = None
        self._annotation_unknown = False
        """Whether the last write of the annotation may or may not have succeeded."""
        self._last_good: str | None = None
        self._stored: str | None = None
        """Text of the stored document; None where there is none, or where it is not known."""
        self._failures: dict[ConfigStep, int] = {}

    def in_force(self) -> Configuration | None:
        """Return the configuration in force, None before there is one."""
        return self.strategies.configuration if self.strategies else None

    async def work(self, step: str) -> None:
        """Carry out a step; one that fails is retried after a growing delay."""
        try:
            match ConfigStep(step):
                case ConfigStep.RESTORE:
                    await self._restore()
                case ConfigStep.DECIDE:
                    self.decide()
                case ConfigStep.REPORT:
                    await self._report()
                case ConfigStep.STORE:
                    await self._store()
        except errors.ApiServerError as error:
            attempt = self._failures.get(ConfigStep(step), 0)
            self._failures[ConfigStep(step)] = attempt + 1
            delay = _DELAYS.seconds(attempt, random.random)
            log.warning("cannot %s: %s; retrying in %.0f s", step, error, delay)
            self.schedule(ConfigStep(step), delay)
        else:
            self._failures.pop(ConfigStep(step), None)

    async def _restore(self) -> None:
        """Put the stored document of an earlier leader in force, unless a newer one is. Raises ApiServerError."""
        stored = await read(self.api, self.settings.namespace, self.settings.last_good_config_map)
        data = stored.data if stored else None
        if self._last_good is not None:
            return  # a newer document was decided meanwhile, and will be stored
        self._stored = (data or {}).get(names.COLOCATION_CONFIG_KEY)
        if (last_good := evaluation.restore(data)) is not None:
            self._put_in_force(last_good)
            self._decided = None  # what is refused is measured against it
            self.schedule(ConfigStep.DECIDE, 0)
        elif self._stored:
            log.warning(
                "the document stored in ConfigMap %s is no longer valid; `koordctl config check` lists why",
                self.settings.last_good_config_map,
            )

    def decide(self) -> None:
        """Decide from the store what is in force, and add the steps that report and store it."""
        config_map = self.config_maps.get(self.settings.config_map)
        if config_map is None and not self.config_maps.is_read:
            return  # not known
        data = config_map.data if config_map else None
        decided = _identity(config_map)
        if decided == self._decided:
            return  # its metadata changed, or another key
        in_force = self.strategies.configuration if self.strategies else None
        self._outcome = outcome = evaluation.evaluate(in_force, data, exists=config_map is not None)
        self._decided = decided
        self._known_before = outcome.text == self._stored
        if outcome.state is evaluation.State.APPLIED:
            self._last_good = outcome.text
        self.telemetry.set_config_state(outcome.state)
        self.telemetry.config_problems.set(len(outcome.problems))
        if outcome.configuration is not None and (outcome.changed or self.strategies is None):
            self._put_in_force(outcome.configuration)
        self.schedule(ConfigStep.REPORT, 0)
        self.schedule(ConfigStep.STORE, 0)

    def _put_in_force(self, configured: Configuration) -> None:
        self.strategies = Strategies(configured)
        self.telemetry.show_config_in_force(self.clock(), configured.longest_report_interval_seconds)
        self.on_change()

    async def _report(self) -> None:
        """Post the Events of the decided document and write the annotation. Raises ApiServerError."""
        if self._annotation_unknown:
            config_map = await read(self.api, self.settings.namespace, self.settings.config_map)
            if config_map is not None:
                self.config_maps.update(config_map)
            self._annotation_unknown = False
        outcome, decided, current = self._outcome, self._decided, self.config_maps.get(self.settings.config_map)
        if outcome is None or decided != _identity(current):
            return  # what is there now is decided next, and reported after that
        if self._posted != decided:
            await self.reporter.post_events(
                outcome, current, applied_before=self._known_before, is_current=lambda: self._outcome is outcome
            )
            if self._outcome is not outcome:
                return
            self._posted = decided
        if current is not None:
            await self._annotate(outcome, current.metadata.uid)

    async def _annotate(self, outcome: evaluation.ConfigOutcome, uid: str) -> None:
        config_map = self.config_maps.get(self.settings.config_map)
        if config_map is None or config_map.metadata.uid != uid:
            return
        try:
            written = await self.reporter.annotate(outcome, config_map)
        except (errors.NotFound, errors.Conflict, errors.Invalid) as error:
            log.info(
                "the ConfigMap %s was replaced before its annotation was written: %s", config_map.metadata.name, error
            )
        except errors.Forbidden as error:
            log.warning("cannot update the status annotation of the ConfigMap %s: %s", config_map.metadata.name, error)
        except errors.ApiServerError:
            self._annotation_unknown = True
            raise
        else:
            if written is not None:
                self.config_maps.update(written)

    async def _store(self) -> None:
        """Store the last valid document, even after a later one was refused. Raises ApiServerError."""
        text = self._last_good
        if text is None or text == self._stored:
            return
        self._stored = None  # until the apiserver has confirmed it: a write that fails may have happened
        with self.telemetry.write("last_good_config"):
            await self._upsert(
                self.settings.last_good_config_map, self.settings.namespace, {names.COLOCATION_CONFIG_KEY: text}
            )
        self._stored = text

    async def _upsert(self, name: str, namespace: str, data: dict[str, str]) -> None:
        try:
            await objects.merge_patch(self.api, resources.CONFIG_MAPS, name, {"data": data}, namespace=namespace)
        except errors.NotFound:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "annotations": {"kubernetes.io/description": _DESCRIPTION}},
                "data": data,
            }
            await objects.create(self.api, resources.CONFIG_MAPS, body, namespace=namespace)


_DESCRIPTION = "The last valid colocation-config, stored by koord-manager. Edit slo-controller-config instead."

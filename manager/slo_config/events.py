"""Reports on the users' ConfigMap: Events for changes, an annotation for the present status.

The annotation is the only write to the ConfigMap, at most one for each evaluated document (decision 0008).
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterator
from typing import Literal

from api_types import names
from api_types.colocation import advice
from api_types.colocation import document as colocation_document
from apiserver_client import objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache.store import ConfigMap
from manager.events.recorder import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.settings import ManagerSettings
from manager.slo_config import condition, evaluation
from manager.slo_config.strategy import Configuration, NodeStrategy

log = logging.getLogger(__name__)

MOST_PROBLEM_EVENTS = 20  # Events per document; the last one counts the rest


class ConfigReporter:
    """Writes Events and the annotation; no decision waits for it."""

    def __init__(
        self,
        api: session.Session,
        settings: ManagerSettings,
        recorder: EventRecorder,
        telemetry: Telemetry,
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._api = api
        self._settings = settings
        self._recorder = recorder
        self._telemetry = telemetry
        self._clock = clock
        self._about: Subject | None = None
        self._overlaps: set[tuple[int, int]] = set()

    async def post_events(
        self,
        outcome: evaluation.ConfigOutcome,
        config_map: ConfigMap,
        *,
        applied_before: bool,
        is_current: Callable[[], bool],
    ) -> None:
        """Post the Events of an evaluated document while it `is_current`.

        `applied_before` where a manager has reported this text already.
        """
        self._about = about = Subject(
            resources.CONFIG_MAPS,
            config_map.metadata.name,
            config_map.metadata.uid,
            namespace=self._settings.namespace,
            resource_version=config_map.metadata.resource_version,
        )
        if outcome.changed:
            self._overlaps = set()
        for severity, reason, text in self._events(outcome, applied_before):
            if not is_current():
                return
            await self._recorder.event(about, severity, reason, text)

    def _events(
        self, outcome: evaluation.ConfigOutcome, applied_before: bool
    ) -> Iterator[tuple[Literal["Normal", "Warning"], str, str]]:
        """Yield severity, reason and text of each Event of an evaluated document."""
        for problem in outcome.problems[:MOST_PROBLEM_EVENTS]:
            text = f"{names.COLOCATION_CONFIG_KEY}: {problem.with_effect()}"
            yield "Warning", condition.REASONS[problem.effect], text
        if (more := len(outcome.problems) - MOST_PROBLEM_EVENTS) > 0:
            rest = f"and {more} more problems: `koordctl config check FILE` lists them all"
            yield "Warning", condition.reason(outcome), rest
        if outcome.unused:
            yield "Normal", condition.UNUSED, colocation_document.unused_text(outcome.unused)
        summary = condition.summary(outcome, kept_in=self._settings.last_good_config_map)
        if outcome.state is evaluation.State.REFUSED:
            log.warning("ConfigMap %s: %s", self._settings.config_map, summary)
        elif not applied_before:
            yield "Normal", condition.APPLIED, summary

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
                await self._recorder.event(self._about, "Warning", condition.ADVICE, text)

    async def annotate(self, outcome: evaluation.ConfigOutcome, config_map: ConfigMap) -> ConfigMap | None:
        """Write the status annotation where it differs; return the ConfigMap as written.

        The apiserver refuses the patch where the ConfigMap was replaced meanwhile. Raises errors.ApiServerError.
        """
        before = (config_map.metadata.annotations or {}).get(names.ANNOTATION_COLOCATION_CONFIG_STATUS)
        kept_in = self._settings.last_good_config_map
        text = condition.annotation(outcome, before, self._clock(), kept_in=kept_in)
        if text is None:
            return None
        annotations = {names.ANNOTATION_COLOCATION_CONFIG_STATUS: text}
        patch = {"metadata": {"uid": config_map.metadata.uid, "annotations": annotations}}
        with self._telemetry.write("config_status"):
            return await objects.merge_patch(
                self._api, resources.CONFIG_MAPS, config_map.metadata.name, patch, namespace=self._settings.namespace,
                decode=ConfigMap,
            )  # fmt: skip

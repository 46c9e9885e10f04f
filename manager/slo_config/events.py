"""Reports on the users' ConfigMap: Events for changes, an annotation for the present status.

The annotation is the only write to the ConfigMap, at most one for each evaluated document (decision 0008).
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable

import msgspec

from api_types import names
from api_types.colocation import advice
from api_types.colocation import document as colocation_document
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.events import EventRecorder
from manager.metrics import Telemetry
from manager.settings import ManagerSettings
from manager.slo_config import condition, evaluation
from manager.slo_config.strategy import Configuration, NodeStrategy

log = logging.getLogger(__name__)

MOST_PROBLEM_EVENTS = 20  # Events per document; the last one counts the rest


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """Identity of a ConfigMap, and its annotations."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class ConfigReporter:
    """Writes Events and the annotation; a failed write is logged and counted, no decision waits for it."""

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

    async def report(self, outcome: evaluation.Outcome, seen: Metadata, *, applied_before: bool) -> None:
        """Report an evaluated document; `applied_before` where a manager has reported this text already."""
        self._about = about = Subject(
            resources.CONFIG_MAPS,
            seen.name,
            seen.uid,
            namespace=self._settings.namespace,
            resource_version=seen.resource_version,
        )
        if outcome.changed:
            self._overlaps = set()
        for problem in outcome.problems[:MOST_PROBLEM_EVENTS]:
            text = f"{names.COLOCATION_CONFIG_KEY}: {problem.with_effect()}"
            await self._recorder.event(about, "Warning", condition.REASONS[problem.effect], text)
        if (more := len(outcome.problems) - MOST_PROBLEM_EVENTS) > 0:
            rest = f"and {more} more problems: `python -m manager check-config FILE` lists them all"
            await self._recorder.event(about, "Warning", condition.reason(outcome), rest)
        if outcome.unused:
            text = colocation_document.unused_text(outcome.unused)
            await self._recorder.event(about, "Normal", condition.UNUSED, text)
        summary = condition.summary(outcome, kept_in=self._settings.last_good_config_map)
        if outcome.state is evaluation.State.REFUSED:
            log.warning("ConfigMap %s: %s", seen.name, summary)
        elif not applied_before:
            await self._recorder.event(about, "Normal", condition.APPLIED, summary)
        await self._annotate(outcome, seen)

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

    async def _annotate(self, outcome: evaluation.Outcome, seen: Metadata) -> None:
        before = (seen.annotations or {}).get(names.ANNOTATION_COLOCATION_CONFIG_STATUS)
        kept_in = self._settings.last_good_config_map
        text = condition.annotation(outcome, before, self._clock(), kept_in=kept_in)
        if text is None:
            return
        patch = {"metadata": {"uid": seen.uid, "annotations": {names.ANNOTATION_COLOCATION_CONFIG_STATUS: text}}}
        try:
            with self._telemetry.write("config_status"):
                await objects.merge_patch(
                    self._api, resources.CONFIG_MAPS, seen.name, patch, namespace=self._settings.namespace
                )
        except errors.ApiServerError as error:
            log.warning("cannot update the status annotation of the ConfigMap %s: %s", seen.name, error)

"""What is told on the users' ConfigMap: Events for what changed, an annotation for what holds.

Nothing is written to the ConfigMap but that annotation, at most once for each document that was judged (decision 8).
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

MOST_PROBLEMS_SAID = 20  # Events per document; the rest is counted in the last one


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """Identity of a ConfigMap, and what others have noted on it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Notices:
    """Writes in the manager's name; what cannot be written is logged and counted, no decision waits for it."""

    def __init__(
        self,
        api: session.Session,
        settings: ManagerSettings,
        announcer: EventRecorder,
        telemetry: Telemetry,
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._api = api
        self._settings = settings
        self._announcer = announcer
        self._telemetry = telemetry
        self._clock = clock
        self._about: Subject | None = None
        self._overlaps: set[tuple[int, int]] = set()

    async def tell(self, outcome: evaluation.Outcome, seen: Metadata, *, applied_before: bool) -> None:
        """Tell what became of a document; `applied_before` where a manager has said so of this text already."""
        self._about = about = Subject(
            resources.CONFIG_MAPS,
            seen.name,
            seen.uid,
            namespace=self._settings.namespace,
            resource_version=seen.resource_version,
        )
        if outcome.changed:
            self._overlaps = set()
        for problem in outcome.problems[:MOST_PROBLEMS_SAID]:
            text = f"{names.COLOCATION_CONFIG_KEY}: {problem.with_effect()}"
            await self._announcer.say(about, "Warning", condition.REASONS[problem.effect], text)
        if (more := len(outcome.problems) - MOST_PROBLEMS_SAID) > 0:
            rest = f"and {more} problems more: python -m manager check-config FILE names them all"
            await self._announcer.say(about, "Warning", condition.reason(outcome), rest)
        if outcome.unused:
            text = colocation_document.unused_text(outcome.unused)
            await self._announcer.say(about, "Normal", condition.UNUSED, text)
        summary = condition.summary(outcome, kept_in=self._settings.last_good_config_map)
        if outcome.state is evaluation.State.REFUSED:
            log.warning("%s: %s", seen.name, summary)
        elif not applied_before:
            await self._announcer.say(about, "Normal", condition.APPLIED, summary)
        await self._annotate(outcome, seen)

    async def tell_overlap(self, configured: Configuration, node: str, strategy: NodeStrategy) -> None:
        """Post an Event where a node shows that entries overlap: once a pair, and not what the document shows."""
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
                await self._announcer.say(self._about, "Warning", condition.ADVICE, text)

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
            log.warning("cannot note on the ConfigMap what became of it: %s", error)

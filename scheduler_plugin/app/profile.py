"""State, watches and measurements of one profile of kube-scheduler. Each profile has its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, metrics_core
from prometheus_client.registry import Collector

from api_types.kubernetes import pods
from apiserver_client import session, watching
from scheduler_plugin.app import metrics
from scheduler_plugin.assembly import Parts
from scheduler_plugin.config.loader import PluginConfiguration
from scheduler_plugin.load_watcher.database import Database
from scheduler_plugin.plugins.trimaran.feed import MeasurementFeed
from scheduler_plugin.settings import SchedulerPluginSettings
from scheduler_plugin.state import informer
from scheduler_plugin.state.mid_watches import EmergencyWatch, NamespaceWatch

log = logging.getLogger(__name__)

_MEASUREMENTS_KEPT_SECONDS: Final = 3600.0
_SYNC_POLL_SECONDS: Final = 0.05


class ProfileState:
    """The parts of one profile, and what feeds them."""

    def __init__(self, name: str, settings: SchedulerPluginSettings, configuration: PluginConfiguration) -> None:
        """Assemble them; the name is empty for the profile of any kube-scheduler."""
        self.name = name
        self._settings = settings
        self.parts = Parts(
            configuration,
            measurement_age_seconds=settings.measurement_max_age_seconds,
            record_bytes=settings.decision_record_mebibytes * 1024**2,
        )
        is_inside = settings.plugin_socket is not None
        names = ["nodes", *([] if is_inside else ["pods"]), "node_metrics"]
        names += ["namespaces"] if self.parts.holds_quotas else []
        self._watches = {name: watching.WatchState() for name in names}
        self.registry = CollectorRegistry()
        for collector in self.parts.collectors():
            self.registry.register(collector)
        if is_inside:
            self.registry.register(metrics.RefusedPodsCollector(self.parts.refused))
        self.registry.register(metrics.StateCollector(self.parts.cluster, self._watches))

    def work(self, api: session.Session, shown: Callable[[pods.Pod], None] | None) -> list[Coroutine[Any, Any, None]]:
        """Return what runs for the profile; `shown` follows pods where kube-scheduler shows none."""
        parts = self.parts
        work = [
            informer.Informer(api, parts.cluster, self._watches, shown).run(),
            EmergencyWatch(api, parts.vectors, self._settings.manager_namespace or api.namespace).run(),
        ]
        if parts.holds_quotas:
            work.append(NamespaceWatch(api, parts.vectors.mid_quotas, self._watches["namespaces"]).run())
        if parts.provider_specs:
            work.append(self._measure(api))
        return work

    def unsynced(self) -> list[str]:
        """Return the watches whose first list is not complete; that of Namespaces only while it does not fail.

        Without the permission for it Mid pods alone are refused, and the reason at each of them names it.
        """
        return informer.unsynced(self._watches, ("namespaces",))

    def awaited(self) -> list[str]:
        """Return those of them that answers wait for: not NodeMetrics that cannot be listed.

        Load alone is read from these; quotas, what a node states, and `midEmergency` hold without them.
        """
        return informer.unsynced(self._watches, ("namespaces", "node_metrics"))

    def expire(self) -> None:
        """Expire assumed pods and waits, and let expired nodes pass while this process does not see the reports."""
        self.parts.cluster.expire_assumed()
        self.parts.waits.expire(time.monotonic())
        seen_at, before = self._watches["node_metrics"].last_activity, self.parts.vectors.blindness
        cause = self.parts.check_blindness(None if seen_at is None else time.monotonic() - seen_at, time.time())
        if cause and not before:
            log.warning("nodes with expired reports pass: %s", cause)
        elif before and not cause:
            log.info("nodes with expired reports are rejected again: reports arrive")

    async def _measure(self, api: session.Session) -> None:
        """Wait for the first lists, then refresh measurements: without nodes, the next ones would come 30 s later."""
        settings, parts, file = self._settings, self.parts, self._settings.measurement_file
        if file and self.name:
            file = f"{file}.{self.name}"
        measured = MeasurementFeed(
            parts.provider_specs,
            parts.measurements,
            parts.measured,
            parts.cluster,
            time.time,
            database=Database(Path(file), _MEASUREMENTS_KEPT_SECONDS) if file else None,
        )
        while self.awaited():  # noqa: ASYNC110  # once, at the start
            await asyncio.sleep(_SYNC_POLL_SECONDS)
        await measured.run(api, self.registry, settings.measurement_interval_seconds)


class ProfilesCollector(Collector):
    """Collector of the samples of all profiles; of several each sample has the label `profile`."""

    def __init__(self, profiles: Sequence[ProfileState]) -> None:
        self._profiles = profiles

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        if len(self._profiles) == 1:
            yield from self._profiles[0].registry.collect()
            return
        families: dict[str, metrics_core.Metric] = {}
        for profile in self._profiles:
            for family in profile.registry.collect():
                merged = families.setdefault(family.name, family)
                label = {"profile": profile.name}
                samples = [sample._replace(labels={**sample.labels, **label}) for sample in family.samples]
                merged.samples = samples if merged is family else [*merged.samples, *samples]
        yield from families.values()

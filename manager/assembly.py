"""Assembly of a leader's components: everything but the watches."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apiserver_client import session
from manager.cache.resync import Resync
from manager.cache.store import ClusterStore
from manager.cache.watch_health import WatchAges
from manager.cache.work_queue import WorkQueue
from manager.events import EventRecorder
from manager.metrics import Telemetry
from manager.mid_resource.controller import MidController
from manager.node_metric.controller import NodeMetricController
from manager.node_metric.crd_schema import SchemaWatch
from manager.reconciler import Reconciler
from manager.settings import ManagerSettings
from manager.slo_config.controller import ConfigController
from manager.slo_config.events import ConfigReporter


@dataclass(frozen=True)
class Components:
    """Components of a leader."""

    cache: ClusterStore
    config: ConfigController
    reconciler: Reconciler
    queue: WorkQueue
    resync: Resync
    schema: SchemaWatch


def assemble(
    api: session.Session,
    settings: ManagerSettings,
    telemetry: Telemetry,
    ages: WatchAges,
    *,
    clock: Callable[[], dt.datetime],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Components:
    """Wire the components. `clock` returns aware time, `sleep` waits between two resyncs."""
    cache = ClusterStore()
    recorder = EventRecorder(api, telemetry, clock)
    queue: WorkQueue

    def requeue_after(name: str, seconds: float | None) -> None:
        if seconds is None:
            queue.cancel(name)
        else:
            queue.add_after(name, seconds)

    def add_all() -> None:
        for name in cache.nodes.names():
            queue.add(name)

    reporter = ConfigReporter(api, settings, recorder, telemetry, clock)
    config = ConfigController(api, settings, reporter, telemetry, add_all)
    reconciler = Reconciler(
        cache=cache,
        config=config,
        config_reporter=reporter,
        node_metrics=NodeMetricController(api, cache, telemetry),
        mid_resources=MidController(
            api, cache=cache, settings=settings, recorder=recorder, telemetry=telemetry, clock=clock
        ),
        recorder=recorder,
        requeue_after=requeue_after,
    )
    telemetry.set_misconfigured_nodes(reconciler.misconfigured_nodes)
    queue = WorkQueue(reconciler.reconcile, workers=settings.workers, is_urgent=reconciler.is_urgent)
    resync = Resync(api, cache=cache, config=config, add=queue.add, ages=ages, telemetry=telemetry, sleep=sleep)
    schema = SchemaWatch(api, recorder, telemetry, sleep)
    return Components(cache, config, reconciler, queue, resync, schema)

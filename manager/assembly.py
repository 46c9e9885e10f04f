"""The parts of a leader, put together: everything but what follows the cluster's events."""

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
from manager.slo_config.events import Notices


@dataclass(frozen=True)
class Parts:
    """What a leader is made of."""

    picture: ClusterStore
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
) -> Parts:
    """Wire the parts. `clock` gives aware time, `sleep` waits between two comparisons with the apiserver."""
    picture = ClusterStore()
    announcer = EventRecorder(api, telemetry, clock)
    queue: WorkQueue

    def look_again(name: str, seconds: float | None) -> None:
        if seconds is None:
            queue.forget_timer(name)
        else:
            queue.mark_later(name, seconds)

    def mark_all() -> None:
        for name in picture.nodes.names():
            queue.mark(name)

    notices = Notices(api, settings, announcer, telemetry, clock)
    config = ConfigController(api, settings, notices, telemetry, mark_all)
    reconciler = Reconciler(
        picture=picture,
        config=config,
        node_metrics=NodeMetricController(api, picture, telemetry),
        mid_resources=MidController(
            api, picture=picture, settings=settings, announcer=announcer, telemetry=telemetry, clock=clock
        ),
        announcer=announcer,
        look_again=look_again,
    )
    telemetry.set_misconfigured_nodes(reconciler.misconfigured_nodes)
    queue = WorkQueue(reconciler.reconcile, workers=settings.workers, is_urgent=reconciler.is_urgent)
    resync = Resync(api, picture=picture, config=config, mark=queue.mark, ages=ages, telemetry=telemetry, sleep=sleep)
    schema = SchemaWatch(api, announcer, telemetry, sleep)
    return Parts(picture, config, reconciler, queue, resync, schema)

"""What a leader does: read the configuration, learn what is there, then follow events and work them off."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import random
import signal
import threading
import time
from collections.abc import Awaitable, Callable

from api_types import pods
from apiserver_client import backoff, connection, errors, objects, resources, session
from manager import event_routing
from manager.announcements import Announcer
from manager.cluster_picture import ClusterPicture, NodeMetric
from manager.mid_resource.controller import MidController
from manager.node_metric.controller import NodeMetricController
from manager.reconciler import Reconciler
from manager.settings import ManagerSettings
from manager.slo_config import controller as slo_config
from manager.slo_config.notices import Notices
from manager.telemetry import Telemetry
from manager.work_queue import WorkQueue

log = logging.getLogger(__name__)

_BEAT_SECONDS = 0.2
_PAUSES = backoff.Backoff(first_seconds=0.5, longest_seconds=10.0)


class Leadership:
    """How leading goes, to be read by probes from another thread."""

    def __init__(self) -> None:
        self.problem: str | None = "starting"
        self.last_beat = time.monotonic()

    def silence_seconds(self) -> float:
        """Time since the event loop was last seen alive."""
        return time.monotonic() - self.last_beat


def now() -> dt.datetime:
    """Read the clock; every other part of the leader is given this."""
    return dt.datetime.now(dt.UTC)  # noqa: TID251  # the edge


async def lead(
    to: connection.Connection,
    settings: ManagerSettings,
    telemetry: Telemetry,
    leadership: Leadership,
    *,
    identity: str,
    stop: threading.Event,
) -> None:
    """Lead until `stop` is set or SIGTERM comes. Raises what kopf raises when it cannot go on."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)  # until kopf installs its own
    async with session.connect(to, user_agent="koord-manager") as api:
        picture = ClusterPicture()
        announcer = Announcer(api, telemetry, now)
        queue: WorkQueue

        def look_again(name: str, seconds: float | None) -> None:
            if seconds is None:
                queue.forget_timer(name)
            else:
                queue.mark_later(name, seconds)

        def mark_all() -> None:
            for name in picture.nodes.names():
                queue.mark(name)

        notices = Notices(api, settings, announcer, telemetry, now)
        config = slo_config.ConfigController(api, settings, notices, telemetry, mark_all)
        node_metrics = NodeMetricController(api, picture, telemetry)
        reconciler = Reconciler(
            picture=picture,
            config=config,
            node_metrics=node_metrics,
            mid_resources=MidController(
                api, picture=picture, settings=settings, announcer=announcer, telemetry=telemetry, clock=now
            ),
            announcer=announcer,
            look_again=look_again,
        )
        queue = WorkQueue(reconciler.reconcile, workers=settings.workers)
        telemetry.set_queue_depth(lambda: len(queue))
        handlers = event_routing.registry(
            to, settings, picture=picture, config=config, mark=queue.mark, telemetry=telemetry, clock=now
        )
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(_beat(leadership))
            for step in (lambda: _learn(api, settings, picture), config.start):
                await _until_it_works(step, leadership, stop)
            workers = group.create_task(queue.run())
            await asyncio.sleep(0)  # let the workers begin before kopf does, which ends what begins after it
            leadership.problem = None
            following = group.create_task(event_routing.follow(handlers, settings, identity=identity))
            ending = group.create_task(_end_at(stop, workers, following))
            await asyncio.wait([following])
            for task in (beating, workers, ending):
                task.cancel()


async def _learn(api: session.Session, settings: ManagerSettings, picture: ClusterPicture) -> None:
    """List what will be followed, so that what was not seen is not there, and so that our errors say what to grant.

    Raises errors.ApiServerError.
    """
    for node in (await objects.list_all(api, resources.NODES, decode=pods.Node)).items:
        picture.nodes.remember(node)
    for metric in (await objects.list_all(api, resources.NODE_METRICS, decode=NodeMetric)).items:
        picture.node_metrics.remember(metric)
    await objects.list_all(api, resources.CONFIG_MAPS, namespace=settings.namespace, decode=slo_config.ConfigMap)


async def _until_it_works(step: Callable[[], Awaitable[None]], leadership: Leadership, stop: threading.Event) -> None:
    """Nothing may be decided before the configuration and what exists are known, so this is tried until it works."""
    attempt = 0
    while not stop.is_set():
        try:
            await step()
        except errors.ApiServerError as error:
            leadership.problem = str(error)
            pause = _PAUSES.seconds(attempt, random.random)
            log.error("cannot start: %s; again in %.1f s", error, pause)  # noqa: TRY400  # the message says it all
            attempt += 1
            await asyncio.to_thread(stop.wait, pause)
        else:
            return


async def _beat(leadership: Leadership) -> None:
    """Show that the loop lives."""
    while True:
        leadership.last_beat = time.monotonic()
        await asyncio.sleep(_BEAT_SECONDS)


async def _end_at(stop: threading.Event, *tasks: asyncio.Task[None]) -> None:
    """When told to stop, end the tasks, the first of them first: nothing may be written once the Lease is lost."""
    while not stop.is_set():  # noqa: ASYNC110  # set by another thread
        await asyncio.sleep(_BEAT_SECONDS)
    for task in tasks:
        task.cancel()

"""What a leader does: read the configuration, learn what is there, then follow events and work them off."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import logging
import random
import signal
import threading
import time
from collections.abc import Awaitable, Callable

from api_types.kubernetes import pods
from apiserver_client import backoff, connection, errors, objects, resources, session
from manager import assembly
from manager.cache import kopf_watches
from manager.cache.store import ClusterStore, NodeMetric
from manager.cache.watch_health import WatchAges
from manager.cache.work_queue import Lane, WorkQueue
from manager.metrics import WATCHED, Telemetry
from manager.settings import ManagerSettings
from manager.slo_config import controller as slo_config

log = logging.getLogger(__name__)

_BEAT_SECONDS = 0.2
_STUCK_SECONDS = 60.0  # an event loop that has not turned for a minute will not turn again
_PAUSES = backoff.Backoff(first_seconds=0.5, longest_seconds=10.0)


class Leadership:
    """How leading goes, to be read by probes from another thread."""

    def __init__(self) -> None:
        self.watch_ages = WatchAges(WATCHED, time.monotonic)
        self.problem: str | None = "starting"
        self.last_beat = time.monotonic()

    def trouble(self, watch_silence_seconds: float) -> str | None:
        """What only a restart would mend; None while the leader works."""
        silence = time.monotonic() - self.last_beat
        if silence > _STUCK_SECONDS:
            return f"the event loop has not turned for {silence:.0f} s"
        watch = self.watch_ages.silent()
        if watch is not None and watch.seconds > watch_silence_seconds:
            return f"the watch of {watch.resource} misses changes and has brought nothing for {watch.seconds:.0f} s"
        return None


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
    may_write: Callable[[], bool],
    stop: threading.Event,
) -> None:
    """Lead until `stop` is set or SIGTERM comes; `may_write` is asked before each write.

    Raises what kopf raises when it cannot go on.
    """
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)  # until kopf installs its own
    async with session.connect(to, user_agent="koord-manager", may_write=may_write) as api:
        ages = leadership.watch_ages
        parts = assembly.assemble(api, settings, telemetry, ages, clock=now)
        _show(telemetry, parts.queue, ages)

        def seen(resource: str) -> None:
            telemetry.events_seen.labels(resource).inc()
            ages.seen(resource)

        handlers = kopf_watches.registry(
            to,
            settings,
            picture=parts.picture,
            config=parts.config,
            mark=parts.queue.mark,
            seen=seen,
            clock=now,
        )
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(_beat(leadership))
            for step in (lambda: _learn(api, settings, parts.picture), parts.config.start):
                await _until_it_works(step, leadership, stop)
            workers = group.create_task(parts.queue.run())
            comparing = group.create_task(parts.resync.run(settings.resync_seconds))
            schema = group.create_task(parts.schema.run(settings.resync_seconds))
            await asyncio.sleep(0)  # let these begin before kopf does, which ends what begins after it
            leadership.problem = None
            following = group.create_task(kopf_watches.follow(handlers, settings, identity=identity))
            ending = group.create_task(_end_at(stop, workers, comparing, schema, following))
            await asyncio.wait([following])
            for task in (beating, workers, comparing, schema, ending):
                task.cancel()


def _show(telemetry: Telemetry, queue: WorkQueue, ages: WatchAges) -> None:
    for lane in Lane:
        telemetry.set_queue_depth(lane, functools.partial(queue.depth, lane))
    for resource in WATCHED:
        telemetry.set_watch_age(resource, functools.partial(ages.age_seconds, resource))


async def _learn(api: session.Session, settings: ManagerSettings, picture: ClusterStore) -> None:
    """List what will be followed, so that what was not seen is not there, and so that our errors say what to grant.

    What cannot be read is left out, as it is when watched. Raises errors.ApiServerError.
    """
    nodes = await objects.list_all(api, resources.NODES, decode=pods.Node, on_unreadable=log.warning)
    for node in nodes.items:
        picture.nodes.remember(node)
    metrics = await objects.list_all(api, resources.NODE_METRICS, decode=NodeMetric, on_unreadable=log.warning)
    for metric in metrics.items:
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

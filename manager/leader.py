"""Run a leader: read the configuration and the cluster, then watch, queue and reconcile."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable

from api_types.kubernetes import pods
from apiserver_client import backoff, connection, errors, objects, resources, session
from component_base import clock
from manager import assembly
from manager.cache import kopf_watches
from manager.cache.store import ClusterStore, NodeMetric
from manager.cache.watch_health import WatchAges
from manager.cache.work_queue import Lane, WorkQueue
from manager.metrics import WATCHED, Telemetry
from manager.settings import ManagerSettings
from manager.slo_config import controller as slo_config

log = logging.getLogger(__name__)

_HEARTBEAT_SECONDS = 0.2
_STUCK_SECONDS = 60.0  # an event loop that has not run for a minute does not recover
_START_DELAYS = backoff.Backoff(first_seconds=0.5, longest_seconds=10.0)


class Leadership:
    """Health of a leader, for probes in another thread."""

    def __init__(self) -> None:
        self.watch_ages = WatchAges(WATCHED, time.monotonic)
        self.problem: str | None = "starting"
        self.last_heartbeat = time.monotonic()

    def trouble(self, watch_silence_seconds: float) -> str | None:
        """Return a fault that only a restart repairs; None while the leader works."""
        silence = time.monotonic() - self.last_heartbeat
        if silence > _STUCK_SECONDS:
            return f"the event loop has not run for {silence:.0f} s"
        watch = self.watch_ages.silent()
        if watch is not None and watch.seconds > watch_silence_seconds:
            return f"the watch of {watch.resource} misses changes and has delivered nothing for {watch.seconds:.0f} s"
        return None


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
    """Lead until `stop` is set; `may_write` is checked before each write.

    Raises kopf_watches.CannotFollow, or the exception that ended kopf.
    """
    async with session.connect(to, user_agent="koord-manager", may_write=may_write) as api:
        ages = leadership.watch_ages
        parts = assembly.assemble(api, settings, telemetry, ages, clock=clock.utc_now)
        export_gauges(telemetry, parts.queue, ages)

        def seen(resource: str) -> None:
            telemetry.events_seen.labels(resource).inc()
            ages.seen(resource)

        def ready() -> None:
            leadership.problem = None

        handlers = kopf_watches.registry(
            to,
            settings,
            kopf_watches.EventSink(parts.cache, parts.config, parts.queue.add),
            loop=asyncio.get_running_loop(),
            seen=seen,
            clock=clock.utc_now,
        )
        async with asyncio.TaskGroup() as group:
            heartbeat = group.create_task(_heartbeat(leadership))
            for step in (lambda: _initial_list(api, settings, parts.cache), parts.config.start):
                await _retry_until_done(step, leadership, stop)
            writing = [
                group.create_task(parts.queue.run()),
                group.create_task(parts.resync.run(settings.resync_seconds)),
                group.create_task(parts.schema.run(settings.resync_seconds)),
            ]
            following = group.create_task(kopf_watches.follow(handlers, settings, identity=identity, on_ready=ready))
            stopping = group.create_task(_cancel_on(stop, *writing, following))
            await asyncio.wait([following])
            for task in (heartbeat, *writing, stopping):
                task.cancel()


def export_gauges(telemetry: Telemetry, queue: WorkQueue, ages: WatchAges) -> None:
    """Export the depth of the queue and the ages of the watches, read at each scrape."""
    for lane in Lane:
        telemetry.set_queue_depth(lane, functools.partial(queue.depth, lane))
    for resource in WATCHED:
        telemetry.set_watch_age(resource, functools.partial(ages.age_seconds, resource))


async def _initial_list(api: session.Session, settings: ManagerSettings, cache: ClusterStore) -> None:
    """Fill the store before anything is decided: an object that is not stored does not exist.

    The ConfigMaps are listed as the watch will list them, so that a missing RBAC rule fails here, by its name. Objects
    that cannot be decoded are left out, as in a watch. Raises errors.ApiServerError.
    """
    nodes = await objects.list_all(api, resources.NODES, decode=pods.Node, on_unreadable=log.warning)
    for node in nodes.items:
        cache.nodes.update(node)
    metrics = await objects.list_all(api, resources.NODE_METRICS, decode=NodeMetric, on_unreadable=log.warning)
    for metric in metrics.items:
        cache.node_metrics.update(metric)
    await objects.list_all(api, resources.CONFIG_MAPS, namespace=settings.namespace, decode=slo_config.ConfigMap)


async def _retry_until_done(step: Callable[[], Awaitable[None]], leadership: Leadership, stop: threading.Event) -> None:
    """Retry a step of the start: nothing may be decided before the configuration and the objects are known."""
    attempt = 0
    while not stop.is_set():
        try:
            await step()
        except errors.ApiServerError as error:
            leadership.problem = str(error)
            delay = max(_START_DELAYS.seconds(attempt, random.random), error.retry_after_seconds or 0.0)
            log.error("cannot start: %s; retrying in %.1f s", error, delay)  # noqa: TRY400  # the message is complete
            attempt += 1
            await asyncio.to_thread(stop.wait, delay)
        else:
            return


async def _heartbeat(leadership: Leadership) -> None:
    """Record that the event loop runs."""
    while True:
        leadership.last_heartbeat = time.monotonic()
        await asyncio.sleep(_HEARTBEAT_SECONDS)


async def _cancel_on(stop: threading.Event, *tasks: asyncio.Task[None]) -> None:
    """Cancel the tasks in their order once `stop` is set: nothing may be written once the Lease is lost."""
    while not stop.is_set():  # noqa: ASYNC110  # set by another thread
        await asyncio.sleep(_HEARTBEAT_SECONDS)
    for task in tasks:
        task.cancel()

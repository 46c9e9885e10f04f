"""Run a leader: read the cluster and the configuration, then watch, queue and reconcile.

Only the nodes are waited for: nothing can be decided or written without them. What else cannot be read is reported,
retried, and meanwhile counts as unknown: Mid resources are withdrawn when the last sample of a node is too old.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import logging
import socket
import threading
import time
from collections.abc import Callable

from api_types.kubernetes import pods
from apiserver_client import connection, errors, resources, session
from apiserver_client.decoding import version_number
from component_base import clock
from manager import assembly
from manager.cache import kopf_thread
from manager.cache.kopf_thread import KopfThread
from manager.cache.object_watches import NodeMetricWatch, ObjectWatch
from manager.cache.store import Availability, ConfigMapStore
from manager.cache.work_queue import Lane
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.decision import CLOCK_TOLERANCE
from manager.mid_resource.reasons import MANAGER_CLOCK_WRONG
from manager.settings import ManagerSettings
from manager.slo_config import controller
from manager.slo_config.controller import ConfigStep

log = logging.getLogger(__name__)

READ_SECONDS = 3600.0
"""kopf misses a deletion while its watch has expired, and delivers nothing after a restore of etcd."""
_HEARTBEAT_SECONDS = 0.2
_SCHEMA_SECONDS = 300.0
_CLOCK_SECONDS = 5.0
_STUCK_SECONDS = 60.0  # an event loop that has not run for a minute does not recover


class Leadership:
    """Health of a leader, for probes in another thread."""

    def __init__(self) -> None:
        self.last_heartbeat = time.monotonic()
        self.kopf: KopfThread | None = None
        self._problems = {"start": "starting"}

    @property
    def problem(self) -> str | None:
        """Return what the leader lacks, None where it lacks nothing."""
        return "; ".join(dict.fromkeys(self._problems.values())) or None

    def show(self, part: str, problem: str | None) -> None:
        """Set the problem of a part of the work, None where it works."""
        if problem is None:
            self._problems.pop(part, None)
        else:
            self._problems[part] = problem

    def trouble(self) -> str | None:
        """Return a fault that only a restart repairs; None while the leader works."""
        silence = time.monotonic() - self.last_heartbeat
        if silence > _STUCK_SECONDS:
            return f"the event loop has not run for {silence:.0f} s"
        if self.kopf is not None and self.kopf.has_failed:
            return "kopf has ended: no edit of the ConfigMap is seen"
        return None


async def _watch_clock(
    checked: clock.CheckedClock, show: Callable[[str, str | None], None], reporter: controller.ConfigReporter
) -> None:
    """Name a wrong clock of this node to the probe, and in an Event each hour, until cancelled."""
    named: dt.datetime | None = None
    while True:
        now = checked.now()
        fault = None
        if checked.is_wrong:
            kind = "ahead" if checked.ahead > dt.timedelta() else "behind"
            fault = (
                f"the clock of the manager's own node ({socket.gethostname()}) is "
                f"{abs(checked.ahead).total_seconds():.0f} s {kind} of the apiserver's, want at most "
                f"{CLOCK_TOLERANCE.total_seconds():.0f} s: ages are measured by the apiserver's; synchronize it, for "
                "example by NTP"
            )
            if named is None or now - named >= dt.timedelta(seconds=READ_SECONDS):
                named = now
                await reporter.event("Warning", MANAGER_CLOCK_WRONG, fault)
        show("clock", fault)
        await asyncio.sleep(_CLOCK_SECONDS)


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
    """Lead until `stop` is set; `may_write` is checked before each write."""
    async with session.connect(to, user_agent="koord-manager", may_write=may_write) as api:
        # by a wrong clock of the manager's own node every sample would be too old, or of the future
        checked = clock.CheckedClock(lambda: api.server_now, CLOCK_TOLERANCE)
        telemetry.clock_ahead.set_function(checked.seconds_ahead)
        parts = assembly.Components(api, settings, telemetry, clock=checked.now)
        for lane in Lane:
            telemetry.queue_depth.labels(lane).set_function(functools.partial(parts.queue.depth, lane))
        telemetry.export_watch_ages()
        nodes, reports = object_watches(api, parts, telemetry.watched, leadership)
        leadership.kopf = kopf_thread.config_watch(
            to, settings, parts.cache.config_maps, add=parts.add_config, on_event=telemetry.watched, identity=identity
        )
        parts.cache.node_metrics_are = Availability.UNREAD
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(work) for work in (_heartbeat(leadership), nodes.follow(), reports.follow())]
            await _until(nodes.listed, stop)
            await _until(reports.answered, stop)
            if stop.is_set():
                for task in reading:
                    task.cancel()
                return
            await _read_config(api, settings, parts)
            await parts.evictor.check_rights()
            writing = [
                group.create_task(work)
                for work in (
                    parts.events.run(), parts.config_queue.run(), parts.queue.run(), parts.spec_queue.run(),
                    parts.schema.run(_SCHEMA_SECONDS), parts.evictor.run(),
                    _watch_clock(checked, leadership.show, parts.reporter),
                    read_hourly(
                        api, settings, parts.cache.config_maps, parts.add_everything
                    ),
                    *([parts.node_slos.run()] if settings.create_node_slos else ()),
                    *([parts.histories.watches.run(), parts.histories.store.run()] if parts.histories else ()),
                )
            ]  # fmt: skip
            config = kopf_thread.follow_config_map(leadership.kopf, lambda: leadership.show("start", None))
            following = group.create_task(config)
            stopping = group.create_task(_cancel_on(stop, *writing, following))
            await asyncio.wait([following])
            for task in (*reading, *writing, stopping):
                task.cancel()


def object_watches(
    api: session.Session, parts: assembly.Components, count_event: Callable[[str], None], leadership: Leadership
) -> tuple[ObjectWatch, NodeMetricWatch]:
    """Wire the watches of Nodes and of NodeMetrics."""
    nodes = ObjectWatch(
        api, resources.NODES, store=parts.cache.nodes, decode=pods.Node, add=parts.queue.add, on_event=count_event,
        show_problem=leadership.show,
    )  # fmt: skip
    reports = NodeMetricWatch(api, parts.cache, add=parts.queue.add, on_event=count_event, show_problem=leadership.show)
    return nodes, reports


async def _read_config(api: session.Session, settings: ManagerSettings, parts: assembly.Components) -> None:
    """Read the configuration once, and queue every node; what cannot be read now is retried while leading."""
    await parts.config.work(ConfigStep.RESTORE)
    try:
        await read(api, settings, parts.cache.config_maps)
    except errors.ApiServerError as error:
        log.error(  # noqa: TRY400  # the message is complete
            "cannot read ConfigMap %s: %s; the last good configuration stays in force", settings.config_map, error
        )
    await parts.config.work(ConfigStep.DECIDE)
    for name in {*parts.cache.nodes.names(), *parts.cache.node_metrics.names()}:
        parts.queue.add(name)


async def read(api: session.Session, settings: ManagerSettings, store: ConfigMapStore) -> None:
    """Read the ConfigMap, whatever version of it is stored. Raises ApiServerError."""
    name, newest = settings.config_map, store.newest_version
    before = store.get(name)
    config_map = await controller.read(api, settings.namespace, name)
    if config_map is None:
        store.remove(name, before.metadata.uid if before else None)
        store.is_read = True
    elif version_number(config_map.metadata.resource_version) < newest:  # etcd was restored
        store.replace([config_map])
    else:
        store.update(config_map)


async def read_hourly(
    api: session.Session, settings: ManagerSettings, store: ConfigMapStore, on_read: Callable[[], None]
) -> None:
    """Read the ConfigMap each hour; `on_read` decides on what was read."""
    while True:
        await asyncio.sleep(READ_SECONDS)
        try:
            await read(api, settings, store)
        except errors.ApiServerError as error:
            log.warning("cannot read ConfigMap %s: %s; trying again in an hour", settings.config_map, error)
        on_read()


async def _until(event: asyncio.Event, stop: threading.Event) -> None:
    while not stop.is_set() and not event.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEARTBEAT_SECONDS):
                await event.wait()


async def _heartbeat(leadership: Leadership) -> None:
    while True:
        leadership.last_heartbeat = time.monotonic()
        await asyncio.sleep(_HEARTBEAT_SECONDS)


async def _cancel_on(stop: threading.Event, *tasks: asyncio.Task[None]) -> None:
    """Cancel the tasks in their order once `stop` is set: nothing may be written once the Lease is lost."""
    while not stop.is_set():  # noqa: ASYNC110  # set by another thread
        await asyncio.sleep(_HEARTBEAT_SECONDS)
    for task in tasks:
        task.cancel()

"""Assembly of a leader's components: everything but the watches."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apiserver_client import session
from manager.cache.object_watches import EventSink
from manager.cache.store import ClusterStore
from manager.cache.work_queue import WorkQueue
from manager.events import QueuedRecorder
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.controller import MidController
from manager.mid_resource.eviction.controller import Evictor
from manager.mid_resource.eviction.records import Rights
from manager.node_metric.controller import NodeMetricController, SchemaWatch
from manager.reconciler import Reconciler
from manager.settings import ManagerSettings
from manager.slo_config.controller import ConfigController, ConfigReporter, ConfigStep
from manager.slo_config.strategy import Configuration


@dataclass(frozen=True)
class Components:
    """Components of a leader."""

    cache: ClusterStore
    config: ConfigController
    config_queue: WorkQueue
    """Steps of the configuration."""
    reconciler: Reconciler
    queue: WorkQueue
    """Nodes whose Mid resources are reconciled."""
    spec_queue: WorkQueue
    """Nodes whose NodeMetric is reconciled. A queue of its own: Mid resources wait for no NodeMetric."""
    sink: EventSink
    events: QueuedRecorder
    schema: SchemaWatch
    evictor: Evictor


def assemble(
    api: session.Session,
    settings: ManagerSettings,
    telemetry: Telemetry,
    *,
    clock: Callable[[], dt.datetime],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Components:
    """Wire the components. `clock` returns aware time, `sleep` waits."""
    cache = ClusterStore(clock)
    recorder = QueuedRecorder(api, telemetry, clock)
    queue: WorkQueue
    spec_queue: WorkQueue

    def requeue_after(name: str, seconds: float | None) -> None:
        if seconds is None:
            queue.cancel(name)
        else:
            queue.add_after(name, seconds)

    def add_all() -> None:
        for name in cache.nodes.names():
            queue.add(name)

    def add(name: str) -> None:
        queue.add(name)

    def add_spec(name: str) -> None:
        spec_queue.add(name)

    def add_specs() -> None:
        for name in cache.nodes.names():
            add_spec(name)

    reporter = ConfigReporter(api, settings, recorder, telemetry, clock)
    config, config_queue = _configuration(api, settings, telemetry, cache, reporter, on_change=add_all, clock=clock)
    add_config = functools.partial(config_queue.add, ConfigStep.DECIDE)

    mid_resources, evictor = _mid_resources(
        api, settings, telemetry, cache, recorder, in_force=config.in_force, clock=clock, sleep=sleep, add=add,
        add_specs=add_specs,
    )  # fmt: skip
    node_metrics = NodeMetricController(api, cache, telemetry, evictor.may_evict)
    reconciler = Reconciler(
        cache=cache, config=config, config_reporter=reporter, mid_resources=mid_resources, recorder=recorder,
        node_metrics=node_metrics, requeue_after=requeue_after, add_spec=add_spec, on_gone=evictor.forget,
    )  # fmt: skip
    telemetry.set_misconfigured_nodes(reconciler.misconfigured_nodes)
    telemetry.set_evaluations(cache.node_metrics.evaluations)
    queue = WorkQueue(reconciler.reconcile, workers=settings.workers, is_urgent=reconciler.is_urgent)
    spec_queue = WorkQueue(reconciler.reconcile_node_metric, workers=settings.workers)
    sink = EventSink(cache, add=queue.add, add_config=add_config)
    schema = SchemaWatch(api, recorder, telemetry, sleep, node_metrics.retry_dropped)
    return Components(cache, config, config_queue, reconciler, queue, spec_queue, sink, recorder, schema, evictor)


def _mid_resources(
    api: session.Session,
    settings: ManagerSettings,
    telemetry: Telemetry,
    cache: ClusterStore,
    recorder: QueuedRecorder,
    *,
    in_force: Callable[[], Configuration | None],
    clock: Callable[[], dt.datetime],
    sleep: Callable[[float], Awaitable[None]],
    add: Callable[[str], None],
    add_specs: Callable[[], None],
) -> tuple[MidController, Evictor]:
    """Wire the controller of the Mid resources with the evictor, which observes what it calculates."""
    controller: MidController

    def relist(name: str) -> None:
        controller.relist(name)

    rights = Rights(api, settings.eviction_namespaces, clock)
    evictor = Evictor(
        api,
        cache=cache,
        configuration=in_force,
        rights=rights,
        recorder=recorder,
        telemetry=telemetry,
        clock=clock,
        sleep=sleep,
        autoscaler=settings.autoscaling,
        relist=relist,
        on_pods_changed=add,
        on_right_changed=add_specs,
    )
    controller = MidController(
        api,
        cache=cache,
        settings=settings,
        recorder=recorder,
        telemetry=telemetry,
        clock=clock,
        observe=evictor.observe,
        newly_evicted=evictor.newly_evicted,
    )
    return controller, evictor


def _configuration(
    api: session.Session,
    settings: ManagerSettings,
    telemetry: Telemetry,
    cache: ClusterStore,
    reporter: ConfigReporter,
    *,
    on_change: Callable[[], None],
    clock: Callable[[], dt.datetime],
) -> tuple[ConfigController, WorkQueue]:
    """Wire the configuration's controller with its queue, whose keys are steps."""
    queue: WorkQueue

    def schedule(step: ConfigStep, seconds: float) -> None:
        if seconds > 0:
            queue.add_after(step, seconds)
        else:
            queue.add(step)

    config = ConfigController(
        api,
        settings,
        config_maps=cache.config_maps,
        reporter=reporter,
        telemetry=telemetry,
        on_change=on_change,
        schedule=schedule,
        clock=clock,
    )
    queue = WorkQueue(config.work, workers=len(ConfigStep))
    return config, queue

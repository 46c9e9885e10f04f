"""Assembly of a leader's components: everything but the watches."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable

from apiserver_client import session
from manager.cache.store import ClusterStore
from manager.cache.work_queue import WorkQueue
from manager.events import EventRecorder, QueuedRecorder
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.controller import MidController
from manager.mid_resource.eviction.controller import Evictor
from manager.mid_resource.eviction.records import Rights
from manager.node_metric.controller import NodeMetricController, SchemaWatch
from manager.node_metric.node_slo import NodeSloController
from manager.node_metric.workload_history.lender import Lender
from manager.node_metric.workload_history.owners import Owners, OwnerWatches
from manager.node_metric.workload_history.pools import Pools
from manager.node_metric.workload_history.stored import HistoryStore
from manager.node_metric.workload_history.workloads import Workloads
from manager.reconciler import Reconciler
from manager.settings import ManagerSettings
from manager.slo_config.controller import ConfigController, ConfigReporter, ConfigStep


class Histories:
    """History of workloads and priors of pools, with the watches and the store that they need."""

    def __init__(
        self, api: session.Session, *, namespace: str, cache: ClusterStore, recorder: EventRecorder,
        telemetry: Telemetry, clock: Callable[[], dt.datetime],
    ) -> None:  # fmt: skip
        def now_seconds() -> float:
            return clock().timestamp()

        owners = Owners()
        self.watches = OwnerWatches(api, owners)
        self.workloads = Workloads(owners, now_seconds, self.watches.are_ready, telemetry.count_statement)
        pools = Pools(now_seconds)
        self.lender = Lender(self.workloads, pools, cache.nodes)
        self.store = HistoryStore(api, namespace, self.workloads, pools, recorder, telemetry)


class Components:
    """Components of a leader, wired. `clock` returns aware time, `sleep` waits."""

    def __init__(
        self,
        api: session.Session,
        settings: ManagerSettings,
        telemetry: Telemetry,
        *,
        clock: Callable[[], dt.datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.cache = cache = ClusterStore()
        self.events = recorder = QueuedRecorder(api, telemetry, clock)
        self.reporter = reporter = ConfigReporter(api, settings, recorder, telemetry, clock)
        self.config = ConfigController(
            api, settings, config_maps=cache.config_maps, reporter=reporter, telemetry=telemetry,
            on_change=self.add_nodes, schedule=self._schedule, clock=clock,
        )  # fmt: skip
        self.config_queue = WorkQueue(self.config.work, workers=len(ConfigStep))
        """Steps of the configuration."""
        self.evictor = Evictor(
            api, cache=cache, configuration=self.config.in_force, recorder=recorder, telemetry=telemetry, clock=clock,
            rights=Rights(api, settings.eviction_namespaces, clock), sleep=sleep, autoscaler=settings.autoscaling,
            relist=self._relist, on_pods_changed=self._add, on_right_changed=self._add_specs, notify=reporter.event,
        )  # fmt: skip
        self.mid_resources = MidController(
            api, cache=cache, settings=settings, recorder=recorder, telemetry=telemetry, clock=clock,
            observe=self.evictor.observe, newly_evicted=self.evictor.newly_evicted,
            remembered=self.evictor.remembered,
        )  # fmt: skip
        self.histories: Histories | None = None
        if settings.workload_history:
            self.histories = Histories(
                api, namespace=settings.namespace, cache=cache, recorder=recorder, telemetry=telemetry, clock=clock
            )
        lender = self.histories.lender if self.histories else Lender()
        cache.node_metrics.on_report = lender.take
        rights = self.evictor.rights
        self.node_metrics = NodeMetricController(api, cache, telemetry, lambda: rights.granted, lender)
        self.node_slos = NodeSloController(api, cache.nodes, telemetry, sleep)
        self.schema = SchemaWatch(api, recorder, telemetry, sleep, self._retry_dropped)
        self.reconciler = Reconciler(
            cache=cache, config=self.config, config_reporter=reporter, mid_resources=self.mid_resources,
            recorder=recorder, node_metrics=self.node_metrics, add=self._add, add_spec=self._add_spec,
            on_gone=self._forget,
        )  # fmt: skip
        workers, is_urgent = settings.workers, self.reconciler.is_urgent
        self.queue = WorkQueue(self.reconciler.reconcile, workers=workers, is_urgent=is_urgent)
        """Nodes whose Mid resources are reconciled."""
        self.spec_queue = WorkQueue(self.reconciler.reconcile_node_metric, workers=workers)
        """Nodes whose NodeMetric is reconciled. A queue of its own: Mid resources wait for no NodeMetric."""
        telemetry.misconfigured_nodes.set_function(self.reconciler.misconfigured_nodes)
        telemetry.evaluation.reports = cache.node_metrics.evaluations

    def add_config(self) -> None:
        """Queue the decision on the configuration."""
        self.config_queue.add(ConfigStep.DECIDE)

    def add_everything(self) -> None:
        """Queue the decision on the configuration, and every node."""
        self.add_config()
        self.add_nodes()

    def add_nodes(self) -> None:
        """Queue every node."""
        for name in self.cache.nodes.names():
            self.queue.add(name)

    def _schedule(self, step: ConfigStep, seconds: float) -> None:
        if seconds > 0:
            self.config_queue.add_after(step, seconds)
        else:
            self.config_queue.add(step)

    def _add(self, name: str) -> None:
        self.queue.add(name)

    def _forget(self, name: str) -> None:
        self.evictor.forget(name)
        if self.histories is not None:
            self.histories.workloads.forget_node(name)

    def _relist(self, name: str) -> None:
        self.mid_resources.relist(name)

    def _add_spec(self, name: str) -> None:
        self.spec_queue.add(name)

    def _add_specs(self) -> None:
        for name in self.cache.nodes.names():
            self.spec_queue.add(name)

    def _retry_dropped(self) -> None:
        for name in self.node_metrics.retry_dropped():
            self.spec_queue.add(name)

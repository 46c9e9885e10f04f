"""Reconcile one node: its Mid resources from its NodeMetric, and its NodeMetric from its strategy.

The two have a queue each: a NodeMetric that cannot be written, or is not answered, delays no withdrawal.
"""

from __future__ import annotations

import datetime as dt
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods
from apiserver_client import resources
from apiserver_client.cluster_events import Subject
from manager.cache.store import Availability, ClusterStore
from manager.events import EventRecorder
from manager.mid_resource.controller import MidController
from manager.mid_resource.reasons import PROBLEM_CODES, RESERVATION_IGNORED
from manager.node_metric.controller import NodeMetricController
from manager.slo_config.controller import ConfigController, ConfigReporter
from manager.slo_config.strategy import NodeStrategy

REPORT_SECONDS: Final = 30.0
"""Longest time until a report follows its spec: agents compare each 20 s, and report at least 5 s apart."""


@dataclass(eq=False)
class Reconciler:
    """`add` gets a node to reconcile, `add_spec` one whose NodeMetric is to be written, `on_gone` a deleted one."""

    cache: ClusterStore
    config: ConfigController
    config_reporter: ConfigReporter
    node_metrics: NodeMetricController
    mid_resources: MidController
    recorder: EventRecorder
    add: Callable[[str], None]
    add_spec: Callable[[str], None]
    on_gone: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self._reported: dict[str, tuple[str, tuple[str, ...]]] = {}
        """UID and reported problems of a node."""
        self._settled: dict[str, tuple[object, ...]] = {}
        """State in which the NodeMetric of a node needed no change."""
        self._awaited: dict[str, dt.datetime] = {}
        """Since when a report is awaited in which new pods are charged by the history of their workloads."""

    async def reconcile(self, name: str) -> float | None:
        """Reconcile the Mid resources of a node; return the seconds until the next time. Raises ApiServerError."""
        node = self.cache.nodes.get(name)
        strategy = self._strategy(node)
        metric, lent = None, None
        if self.cache.node_metrics_are is Availability.LISTED:
            metric = self.cache.node_metrics.get(name)
            lent = self.node_metrics.lender.lent(node, metric, strategy)
            related = (metric.spec, metric.metadata.owner_references, metric.lent, lent) if metric else None
            merged = weakref.ref(strategy) if strategy else None  # each node may write a strategy of its own
            state = (node.metadata.uid if node else None, merged, related, self.node_metrics.may_evict())
            if self._settled.get(name) != state:
                if self.node_metrics.differs(name, strategy):
                    self._settled.pop(name, None)
                    self.add_spec(name)
                else:
                    self._settled[name] = state
        if node is None:
            self._forget(name)
            return None
        if strategy is None or self.config.strategies is None:
            return await self.mid_resources.without_configuration(name)
        if metric is None or not metric.cold_pods:
            self._awaited.pop(name, None)
        else:
            is_ahead = self.node_metrics.lender.is_ahead(metric, strategy, lent)
            wait_seconds = self._seconds_to_wait(name, is_awaited=is_ahead)
            if wait_seconds and not self.mid_resources.needs_withdrawal(node, strategy):
                return wait_seconds
        seconds = await self.mid_resources.reconcile(name, strategy)
        annotations = node.metadata.annotations or {}
        if strategy.problems or names.ANNOTATION_NODE_RESERVATION in annotations or name in self._reported:
            await self._report_problems(node, strategy)
        if len(strategy.matching) > 1:
            await self.config_reporter.report_overlap(self.config.strategies.configuration, name, strategy)
        return seconds

    def _seconds_to_wait(self, name: str, *, is_awaited: bool) -> float:
        """Return how long the next report may still take. If one is always awaited, the present one counts in turns."""
        if not is_awaited:
            self._awaited.pop(name, None)
            return 0.0
        now = self.mid_resources.clock()
        seconds = REPORT_SECONDS - (now - self._awaited.setdefault(name, now)).total_seconds()
        if seconds <= 0:
            del self._awaited[name]
        return max(seconds, 0.0)

    async def reconcile_node_metric(self, name: str) -> None:
        """Reconcile the NodeMetric of a node. Raises errors.ApiServerError."""
        if self.cache.node_metrics_are is not Availability.LISTED:
            return
        node = self.cache.nodes.get(name)
        await self.node_metrics.reconcile(name, self._strategy(node))
        if node is None and self.cache.nodes.get(name) is not None:
            self.add(name)  # the watch had not delivered it yet

    def misconfigured_nodes(self) -> int:
        """Return the number of nodes that carry an invalid annotation or label."""
        return len(self._reported)

    def is_urgent(self, name: str) -> bool:
        """Check whether Mid resources that are published on a node are to be withdrawn."""
        node = self.cache.nodes.get(name)
        strategy = self._strategy(node)
        return node is not None and strategy is not None and self.mid_resources.needs_withdrawal(node, strategy)

    def _strategy(self, node: pods.Node | None) -> NodeStrategy | None:
        strategies = self.config.strategies
        if node is None or strategies is None:
            return None
        annotations = node.metadata.annotations or {}
        return strategies.merged(node.metadata.labels or {}, annotations)

    async def _report_problems(self, node: pods.Node, strategy: NodeStrategy) -> None:
        """Record an Event on the node for each problem of its own annotations and labels, once."""
        name = node.metadata.name
        problems = strategy.problems
        texts = {f"{where}: {problem.with_effect()}": PROBLEM_CODES[problem.effect] for where, problem in problems}
        reserved = node_reservation.annotated(pods.annotation_map(node.metadata))
        texts |= {problem.with_effect(): RESERVATION_IGNORED for problem in reserved.problems}
        uid, reported = self._reported.get(name, ("", ()))
        for text, reason in texts.items():
            if uid != node.metadata.uid or text not in reported:
                about = Subject(resources.NODES, name, node.metadata.uid)
                await self.recorder.event(about, "Warning", reason, text)
        if texts:
            self._reported[name] = node.metadata.uid, tuple(texts)
        else:
            self._reported.pop(name, None)

    def _forget(self, name: str) -> None:
        for memory in (self._reported, self._settled, self._awaited):
            memory.pop(name, None)
        self.mid_resources.forget(name)
        self.node_metrics.forget(name)
        self.on_gone(name)

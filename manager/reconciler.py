"""Reconcile one node: its Mid resources from its NodeMetric, and its NodeMetric from its strategy.

The two have a queue each: a NodeMetric that cannot be written, or is not answered, delays no withdrawal.
"""

from __future__ import annotations

from collections.abc import Callable

from api_types.colocation import node_reservation
from api_types.colocation.problem import Effect
from api_types.kubernetes import pods
from apiserver_client import resources
from apiserver_client.cluster_events import Subject
from manager.cache.store import Availability, ClusterStore
from manager.events import EventRecorder
from manager.mid_resource.controller import MidController
from manager.mid_resource.reasons import RESERVATION_IGNORED
from manager.node_metric.controller import NodeMetricController
from manager.slo_config.controller import ConfigController, ConfigReporter
from manager.slo_config.strategy import NodeStrategy

RequeueAfter = Callable[[str, float | None], None]

_REASONS = {Effect.LAYER_IGNORED: "NodeStrategyIgnored", Effect.ADVICE: "NodeStrategyAdvice"}


class Reconciler:
    """`requeue_after` gets a node and the delay after which it is reconciled without an event, None for never.

    `add_spec` gets a node whose NodeMetric is to be written, `on_gone` one that was deleted.
    """

    def __init__(
        self,
        *,
        cache: ClusterStore,
        config: ConfigController,
        config_reporter: ConfigReporter,
        node_metrics: NodeMetricController,
        mid_resources: MidController,
        recorder: EventRecorder,
        requeue_after: RequeueAfter,
        add_spec: Callable[[str], None],
        on_gone: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cache = cache
        self._config = config
        self._config_reporter = config_reporter
        self._node_metrics = node_metrics
        self._mid_resources = mid_resources
        self._on_gone = on_gone
        self._recorder = recorder
        self._requeue_after = requeue_after
        self._add_spec = add_spec
        self._reported: dict[str, tuple[str, tuple[str, ...]]] = {}
        """UID and reported problems of a node."""

    async def reconcile(self, name: str) -> None:
        """Reconcile the Mid resources of a node. Raises errors.ApiServerError."""
        node = self._cache.nodes.get(name)
        strategy = self._strategy(node)
        if self._cache.node_metrics_are is Availability.LISTED and self._node_metrics.differs(name, strategy):
            self._add_spec(name)
        if node is None:
            self._forget(name)
        elif strategy is None:
            self._requeue_after(name, await self._mid_resources.without_configuration(name))
        else:
            self._requeue_after(name, await self._mid_resources.reconcile(name, strategy))
            await self._report_problems(node, strategy)
            if self._config.strategies is not None:
                await self._config_reporter.report_overlap(self._config.strategies.configuration, name, strategy)

    async def reconcile_node_metric(self, name: str) -> None:
        """Reconcile the NodeMetric of a node. Raises errors.ApiServerError."""
        if self._cache.node_metrics_are is not Availability.LISTED:
            return
        node = self._cache.nodes.get(name)
        await self._node_metrics.reconcile(name, self._strategy(node))
        if node is None and self._cache.nodes.get(name) is not None:
            self._requeue_after(name, 0.0)  # the watch had not delivered it yet

    def misconfigured_nodes(self) -> int:
        """Return the number of nodes that carry an invalid annotation or label."""
        return len(self._reported)

    def is_urgent(self, name: str) -> bool:
        """Check whether Mid resources that are published on a node are to be withdrawn."""
        strategy = self._strategy(self._cache.nodes.get(name))
        return strategy is not None and self._mid_resources.needs_withdrawal(name, strategy)

    def _strategy(self, node: pods.Node | None) -> NodeStrategy | None:
        if node is None or self._config.strategies is None:
            return None
        return self._config.strategies.merged(pods.label_map(node.metadata), pods.annotation_map(node.metadata))

    async def _report_problems(self, node: pods.Node, strategy: NodeStrategy) -> None:
        """Record an Event on the node for each problem of its own annotations and labels, once."""
        name = node.metadata.name
        texts = {f"{where}: {problem.with_effect()}": _REASONS[problem.effect] for where, problem in strategy.problems}
        reserved = node_reservation.annotated(pods.annotation_map(node.metadata))
        texts |= {problem.with_effect(): RESERVATION_IGNORED for problem in reserved.problems}
        uid, reported = self._reported.get(name, ("", ()))
        for text, reason in texts.items():
            if uid != node.metadata.uid or text not in reported:
                about = Subject(resources.NODES, name, node.metadata.uid)
                await self._recorder.event(about, "Warning", reason, text)
        if texts:
            self._reported[name] = node.metadata.uid, tuple(texts)
        else:
            self._reported.pop(name, None)

    def _forget(self, name: str) -> None:
        self._reported.pop(name, None)
        self._mid_resources.forget(name)
        self._node_metrics.forget(name)
        self._on_gone(name)
        self._requeue_after(name, None)

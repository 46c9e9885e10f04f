"""One node, in order: its NodeMetric follows its strategy, then its Mid resources follow its NodeMetric."""

from __future__ import annotations

from collections.abc import Callable

from api_types.colocation.problem import Effect
from api_types.kubernetes import node_reservation, pods
from apiserver_client import resources
from apiserver_client.cluster_events import Subject
from manager.cache.store import ClusterStore
from manager.events import EventRecorder
from manager.mid_resource.controller import MidController
from manager.mid_resource.reasons import RESERVATION_IGNORED
from manager.node_metric.controller import NodeMetricController
from manager.slo_config.controller import ConfigController
from manager.slo_config.strategy import NodeStrategy

LookAgain = Callable[[str, float | None], None]

_REASONS = {
    Effect.DOCUMENT_REFUSED: "NodeStrategyIgnored",
    Effect.LAYER_IGNORED: "NodeStrategyIgnored",
    Effect.ADVICE: "NodeStrategyAdvice",
}


class Reconciler:
    """`look_again` is told a node and the seconds after which it wants to be looked at without an event."""

    def __init__(
        self,
        *,
        picture: ClusterStore,
        config: ConfigController,
        node_metrics: NodeMetricController,
        mid_resources: MidController,
        announcer: EventRecorder,
        look_again: LookAgain,
    ) -> None:
        self._picture = picture
        self._config = config
        self._node_metrics = node_metrics
        self._mid_resources = mid_resources
        self._announcer = announcer
        self._look_again = look_again
        self._told: dict[str, tuple[str, ...]] = {}

    async def reconcile(self, name: str) -> None:
        """Bring everything that belongs to a node to what it should be. Raises errors.ApiServerError."""
        node = self._picture.nodes.get(name)
        strategy = self._strategy_of(node)
        await self._node_metrics.reconcile(name, strategy)
        if self._picture.nodes.get(name) is None:
            self._forget(name)
        elif node is None or strategy is None:
            self._mid_resources.without_configuration(name)
        else:
            self._look_again(name, await self._mid_resources.reconcile(name, strategy))
            await self._tell_problems(node, strategy)
            await self._config.tell_overlap(name, strategy)

    def misconfigured_nodes(self) -> int:
        """How many nodes carry an annotation or a label that is not right."""
        return len(self._told)

    def is_urgent(self, name: str) -> bool:
        """Whether Mid resources that are published on a node are to be withdrawn."""
        strategy = self._strategy_of(self._picture.nodes.get(name))
        return strategy is not None and self._mid_resources.is_to_be_withdrawn(name, strategy)

    def _strategy_of(self, node: pods.Node | None) -> NodeStrategy | None:
        if node is None or self._config.strategies is None:
            return None
        return self._config.strategies.of(pods.labels_of(node.metadata), pods.annotations_of(node.metadata))

    async def _tell_problems(self, node: pods.Node, strategy: NodeStrategy) -> None:
        """Post an Event on the node for what is wrong with its own annotations and labels, once."""
        name = node.metadata.name
        found = {f"{where}: {problem.with_effect()}": _REASONS[problem.effect] for where, problem in strategy.problems}
        reserved = node_reservation.annotated(pods.annotations_of(node.metadata))
        found |= {problem.with_effect(): RESERVATION_IGNORED for problem in reserved.problems}
        for text, reason in found.items():
            if text not in self._told.get(name, ()):
                about = Subject(resources.NODES, name, node.metadata.uid)
                await self._announcer.say(about, "Warning", reason, text)
        if found:
            self._told[name] = tuple(found)
        else:
            self._told.pop(name, None)

    def _forget(self, name: str) -> None:
        self._told.pop(name, None)
        self._mid_resources.forget(name)
        self._look_again(name, None)

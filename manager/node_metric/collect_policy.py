"""A node's strategy -> the spec of its NodeMetric, and the smallest patch that brings one there. Pure.

Source: design 3.3, koordinator-core 4.6.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from api_types import node_metric, pods
from api_types import slo_controller_config as slo
from api_types.node_metric import MetricCollectPolicy, NodeMemoryCollectPolicy, NodeMetricSpec
from manager.slo_config.strategy import NodeStrategy


class ColocationDisabled(Exception):
    """A strategy that is switched off has no collect policy of its own."""


def collect_policy(strategy: slo.ColocationStrategy) -> MetricCollectPolicy:
    """How the agent collects and reports. Raises ColocationDisabled."""
    if not strategy.enable:
        raise ColocationDisabled("the strategy is not enabled")
    windows = strategy.metric_aggregate_policy
    memory = strategy.metric_memory_collect_policy
    return MetricCollectPolicy(
        aggregate_duration_seconds=strategy.metric_aggregate_duration_seconds,
        report_interval_seconds=strategy.metric_report_interval_seconds,
        node_aggregate_policy=node_metric.AggregatePolicy(durations=windows.durations) if windows else None,
        node_memory_collect_policy=NodeMemoryCollectPolicy(memory) if memory else None,
    )


DEFAULT_COLLECT_POLICY: Final = collect_policy(slo.DEFAULTS.model_copy(update={"enable": True}))
"""What holds on nodes that take no part: they are measured all the same."""


@functools.lru_cache(maxsize=1024)  # one entry for each way in which nodes differ, not for each node
def spec_of(node: NodeStrategy) -> NodeMetricSpec:
    """Spec of the NodeMetric of a node with this strategy."""
    strategy = node.strategy
    fields = {name: getattr(strategy, name) for name in slo.MidColocationPolicy.model_fields}
    return NodeMetricSpec(
        metric_collect_policy=collect_policy(strategy) if node.enabled else DEFAULT_COLLECT_POLICY,
        predict_policy=strategy.node_predict_policy,
        mid_colocation_policy=slo.MidColocationPolicy(**{**fields, "enable": node.enabled}),
    )


DEFAULT_SPEC: Final = NodeMetricSpec(metric_collect_policy=DEFAULT_COLLECT_POLICY)
"""Spec of a NodeMetric made while no good configuration has been seen: the agent's own defaults for the rest."""


def spec_patch(current: Mapping[str, Any] | None, wanted: NodeMetricSpec) -> dict[str, Any]:
    """Merge patch of `spec` that sets our fields and removes the ones we no longer set; {} where nothing differs.

    Fields that the model does not know are somebody else's and stay.
    """
    return _patch(current or {}, wanted.to_wire(), NodeMetricSpec)


def _patch(current: Mapping[str, Any], wanted: Mapping[str, Any], model: type[Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for info in model.model_fields.values():
        key = info.alias
        if key not in wanted:
            if key in current:
                patch[key] = None
        elif isinstance(current.get(key), Mapping) and (nested := slo.nested_model(info.annotation)):
            if below := _patch(current[key], wanted[key], nested):
                patch[key] = below
        elif current.get(key) != wanted[key]:
            patch[key] = wanted[key]
    return patch


def owner_references(current: list[dict[str, Any]] | None, node: pods.Node) -> list[dict[str, Any]] | None:
    """References with the Node among them, so that a NodeMetric goes with its Node; None where they are right.

    A reference to a Node of another UID is an earlier one of the same name and is dropped.
    """
    own = {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
    others = [reference for reference in current or () if reference.get("kind") != "Node"]
    nodes = [reference for reference in current or () if reference.get("kind") == "Node"]
    if len(nodes) == 1 and own.items() <= nodes[0].items():
        return None
    return [*others, own]

"""Compute the spec of a NodeMetric from the node's strategy. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api_types.colocation import controller_config as slo
from api_types.colocation import presets
from api_types.node_metric import types as node_metric
from api_types.node_metric.types import MetricCollectPolicy, NodeMemoryCollectPolicy, NodeMetricSpec
from manager.slo_config.strategy import NodeStrategy, once_per_strategy


class ColocationDisabled(Exception):
    """A disabled strategy has no collect policy of its own."""


def collect_policy(strategy: slo.ColocationStrategy) -> MetricCollectPolicy:
    """Return how the agent collects and reports. Raises ColocationDisabled."""
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
"""Policy of nodes that do not take part: they are measured all the same."""


def spec_of(node: NodeStrategy, *, may_evict: bool = False) -> NodeMetricSpec:
    """Return the spec of the NodeMetric of a node with this strategy.

    The take-back gate: `calibrated` alone only where the manager evicts Mid pods, and `may_evict`.
    """
    strategy = node.strategy
    predict = strategy.node_predict_policy
    evicts = may_evict and strategy.mid_eviction is not None and strategy.mid_eviction.mode == "evict"
    fields = {name: getattr(strategy, name) for name in slo.MidColocationPolicy.model_fields}
    return NodeMetricSpec(
        metric_collect_policy=collect_policy(strategy) if node.enabled else DEFAULT_COLLECT_POLICY,
        predict_policy=predict if predict is None or evicts else presets.behind_gate(predict),
        mid_colocation_policy=slo.MidColocationPolicy(**{**fields, "enable": node.enabled}),
    )


def wire_spec_of(node: NodeStrategy, *, may_evict: bool = False) -> Mapping[str, Any]:
    """Return `spec_of` as it is on the wire: each report of each node is compared with it."""
    return _wire_spec_with_right(node) if may_evict else _wire_spec_without_right(node)


@once_per_strategy
def _wire_spec_with_right(node: NodeStrategy) -> Mapping[str, Any]:
    return spec_of(node, may_evict=True).to_wire()


@once_per_strategy
def _wire_spec_without_right(node: NodeStrategy) -> Mapping[str, Any]:
    return spec_of(node, may_evict=False).to_wire()


DEFAULT_SPEC: Final = NodeMetricSpec(metric_collect_policy=DEFAULT_COLLECT_POLICY).to_wire()
"""Spec of a NodeMetric created before any valid configuration: the agent has its own defaults for the rest."""

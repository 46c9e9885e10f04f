"""Compute the spec of a NodeMetric from the node's strategy, and the smallest change that it needs. Pure.

The manager owns the spec of a NodeMetric, the agent its status.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.colocation import presets
from api_types.kubernetes import pods
from api_types.node_metric import types as node_metric
from api_types.node_metric.types import MetricCollectPolicy, NodeMemoryCollectPolicy, NodeMetricSpec
from manager.cache.store import Lent, StoredNodeMetric
from manager.slo_config.strategy import NodeStrategy, mid_colocation_policy, once_per_strategy


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


def for_node(node: NodeStrategy, *, may_evict: bool = False) -> NodeMetricSpec:
    """Return the spec of the NodeMetric of a node with this strategy.

    The take-back gate: `calibrated` alone only where the manager evicts Mid pods, and `may_evict`.
    """
    strategy = node.strategy
    predict = strategy.node_predict_policy
    evicts = may_evict and strategy.mid_eviction is not None and strategy.mid_eviction.mode == "evict"
    return NodeMetricSpec(
        metric_collect_policy=collect_policy(strategy) if node.enabled else DEFAULT_COLLECT_POLICY,
        predict_policy=predict if predict is None or evicts else presets.behind_gate(predict),
        mid_colocation_policy=mid_colocation_policy(node),
    )


def wire_for_node(node: NodeStrategy, *, may_evict: bool = False) -> Mapping[str, Any]:
    """Return `for_node` as it is on the wire: each report of each node is compared with it."""
    return _wire_specs(node)[may_evict]


@once_per_strategy
def _wire_specs(node: NodeStrategy) -> Sequence[Mapping[str, Any]]:
    return [for_node(node, may_evict=may_evict).to_wire() for may_evict in (False, True)]


DEFAULT_SPEC: Final = NodeMetricSpec(metric_collect_policy=DEFAULT_COLLECT_POLICY).to_wire()
"""Spec of a NodeMetric created before any valid configuration: the agent has its own defaults for the rest."""


class MetricAction(enum.StrEnum):
    """Action on a NodeMetric."""

    NONE = "none"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class MetricChange:
    """An action; `body` is the object to create, or the merge patch of an update."""

    action: MetricAction
    body: Mapping[str, Any] = field(default_factory=dict)
    lent: Lent | None = None
    """What the spec is to have of other nodes; None where that changes nothing."""


def plan(
    node: pods.Node | None, metric: StoredNodeMetric | None, spec: Mapping[str, Any] | None, lent: Lent | None = None
) -> MetricChange:
    """Plan the change to a spec, which is as on the wire, and to what it has of other nodes.

    Without it (no configuration yet) a present spec stays, and a new NodeMetric gets the default.
    """
    if node is None:
        return MetricChange(MetricAction.NONE if metric is None else MetricAction.DELETE)
    if metric is None:
        return MetricChange(MetricAction.CREATE, _new(node, spec or DEFAULT_SPEC))
    patch: dict[str, Any] = {}
    if owners := owner_references(metric.metadata.owner_references, node):
        patch["metadata"] = {"ownerReferences": owners}
    if spec and (changes := spec_patch(metric.spec, spec)):
        patch["spec"] = changes
    changed = lent if lent != metric.lent else None
    if not patch and changed is None:
        return MetricChange(MetricAction.NONE)
    return MetricChange(MetricAction.UPDATE, patch, changed)


def _new(node: pods.Node, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.NODE_METRIC_KIND,
        "metadata": {"name": node.metadata.name, "ownerReferences": owner_references(None, node)},
        "spec": spec,
    }


def spec_patch(current: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch of `spec` that sets and removes the manager's own fields; {} where nothing differs.

    Fields that the model does not know belong to other clients and stay.
    """
    return {} if current == spec else _patch(current or {}, spec, NodeMetricSpec)


def _patch(current: Mapping[str, Any], spec: Mapping[str, Any], model: type[Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for info in model.model_fields.values():
        key = info.alias
        if key not in spec:
            if key in current:
                patch[key] = None
        elif isinstance(current.get(key), Mapping) and (nested := slo.nested_model(info.annotation)):
            if below := _patch(current[key], spec[key], nested):
                patch[key] = below
        elif current.get(key) != spec[key]:
            patch[key] = spec[key]
    return patch


def owner_references(current: list[dict[str, Any]] | None, node: pods.Node) -> list[dict[str, Any]] | None:
    """Return the references with the Node among them, which deletes a NodeMetric with its Node; None for no change.

    A reference with another UID is to an earlier Node of the same name and is dropped.
    """
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
    others = [reference for reference in current or () if reference.get("kind") != "Node"]
    nodes = [reference for reference in current or () if reference.get("kind") == "Node"]
    if len(nodes) == 1 and owner.items() <= nodes[0].items():
        return None
    return [*others, owner]

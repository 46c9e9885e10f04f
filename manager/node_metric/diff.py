"""Compute the smallest change of a NodeMetric from the present Node and NodeMetric. Pure.

The manager owns the spec of a NodeMetric, the agent its status.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.kubernetes import pods
from api_types.node_metric.types import NodeMetricSpec
from manager.cache.store import NodeMetric
from manager.node_metric import spec as collect_policy


class Action(enum.StrEnum):
    """Action on a NodeMetric."""

    NONE = "none"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class Plan:
    """An action; `body` is the object to create, or the merge patch of an update."""

    action: Action
    body: Mapping[str, Any] = field(default_factory=dict)


def plan(node: pods.Node | None, metric: NodeMetric | None, wanted: Mapping[str, Any] | None) -> Plan:
    """Plan the change to the `wanted` spec, which is as on the wire.

    Without it (no configuration yet) a present spec stays, and a new NodeMetric gets the default.
    """
    if node is None:
        return Plan(Action.NONE if metric is None else Action.DELETE)
    if metric is None:
        return Plan(Action.CREATE, _new(node, wanted or collect_policy.DEFAULT_SPEC))
    patch: dict[str, Any] = {}
    if owners := owner_references(metric.metadata.owner_references, node):
        patch["metadata"] = {"ownerReferences": owners}
    if wanted and (spec := spec_patch(metric.spec, wanted)):
        patch["spec"] = spec
    return Plan(Action.UPDATE, patch) if patch else Plan(Action.NONE)


def _new(node: pods.Node, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.NODE_METRIC_KIND,
        "metadata": {"name": node.metadata.name, "ownerReferences": owner_references(None, node)},
        "spec": spec,
    }


def spec_patch(current: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch of `spec` that sets and removes the manager's own fields; {} where nothing differs.

    Fields that the model does not know belong to other clients and stay.
    """
    return {} if current == wanted else _patch(current or {}, wanted, NodeMetricSpec)


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
    """Return the references with the Node among them, which deletes a NodeMetric with its Node; None for no change.

    A reference with another UID is to an earlier Node of the same name and is dropped.
    """
    own = {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
    others = [reference for reference in current or () if reference.get("kind") != "Node"]
    nodes = [reference for reference in current or () if reference.get("kind") == "Node"]
    if len(nodes) == 1 and own.items() <= nodes[0].items():
        return None
    return [*others, own]

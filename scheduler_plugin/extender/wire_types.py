"""Wire types of the kube-scheduler extender protocol, v1 (defined by kube-scheduler, hence not in api_types).

Go writes the names of its fields unchanged, so the keys are capitalised; the pod inside has the usual keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from api_types.kubernetes import pods


class NodeList(msgspec.Struct, frozen=True):
    """Whole nodes, sent if `nodeCacheCapable` is false; kept encoded, because the response repeats them."""

    items: list[msgspec.Raw] | None = None


class ExtenderArgs(msgspec.Struct, rename="pascal", frozen=True):
    """Request of filter and prioritize."""

    pod: pods.Pod
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class ExtenderBindingArgs(msgspec.Struct, frozen=True):
    """Request of bind."""

    pod_name: str = msgspec.field(name="PodName", default="")
    pod_namespace: str = msgspec.field(name="PodNamespace", default="")
    pod_uid: str = msgspec.field(name="PodUID", default="")
    node: str = msgspec.field(name="Node", default="")


class ExtenderFilterResult(msgspec.Struct, rename="pascal", frozen=True, omit_defaults=True):
    """Response of filter that is not assembled from rows: no node passed, or whole nodes were sent."""

    nodes: Mapping[str, Sequence[msgspec.Raw]] | None = None
    node_names: Sequence[str] | None = None
    failed_and_unresolvable_nodes: Mapping[str, str] | None = None


class _Named(msgspec.Struct, frozen=True):
    metadata: pods.ObjectMeta


_NODE_NAME = msgspec.json.Decoder(_Named)


def name_of(node: msgspec.Raw) -> str:
    """Return the name of a whole node. Raises msgspec.DecodeError."""
    return _NODE_NAME.decode(node).metadata.name

"""Wire types of the kube-scheduler extender protocol, v1 (defined by kube-scheduler, hence not in api_types).

Go writes the names of its fields unchanged, so the keys are capitalised; the pod inside has the usual keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from api_types.kubernetes import pods


class ExtenderArgs(msgspec.Struct, rename="pascal", frozen=True):
    """Request of filter and prioritize. `nodes` holds whole nodes; sent if `nodeCacheCapable` is false."""

    pod: pods.Pod
    nodes: msgspec.Raw = msgspec.Raw(b"null")
    node_names: list[str] | None = None


class MetaPod(msgspec.Struct, frozen=True):
    """Identity of a victim."""

    uid: str = msgspec.field(name="UID", default="")


class MetaVictims(msgspec.Struct, rename="pascal", frozen=True):
    """Pods that would be evicted from one node."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(msgspec.Struct, rename="pascal", frozen=True):
    """Request of preempt: candidates and their victims, by node name.

    `node_name_to_victims` holds whole pods; kube-scheduler sends it if `nodeCacheCapable` is false.
    """

    pod: pods.Pod
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None
    node_name_to_victims: msgspec.Raw = msgspec.Raw(b"null")


class ExtenderPreemptionResult(msgspec.Struct, rename="pascal", frozen=True):
    """Response of preempt: the candidates on which the pod would pass once the victims are gone."""

    node_name_to_meta_victims: Mapping[str, MetaVictims]


class ExtenderFilterResult(msgspec.Struct, rename="pascal", frozen=True, omit_defaults=True):
    """Response of filter."""

    node_names: Sequence[str] | None = None
    failed_nodes: Mapping[str, str] | None = None
    failed_and_unresolvable_nodes: Mapping[str, str] | None = None


class HostPriority(msgspec.Struct, rename="pascal", frozen=True):
    """Score of a node in the response of prioritize."""

    host: str
    score: int

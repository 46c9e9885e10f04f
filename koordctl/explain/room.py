"""What a pod could request at most to fit on a node: all its shortages there together, as kube-scheduler counts them.

A claim is made only where nothing else keeps the pod from the node, so far as its object and its pods show it: a pod
with affinities, spread constraints, claims or ports of the host gets none. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from api_types import names
from api_types.kubernetes import pods, quantities
from fleet.node_state import NodeState
from koordctl.cli.answer import core_count

_MIB: Final = 2**20
_PODS: Final = "pods"
Document = Mapping[str, Any]


class Room(NamedTuple):
    """Amounts that a pod may request at most, in milli-cores, bytes or counts, of what is short on a node."""

    node: str
    at_most: Mapping[str, int]

    def __str__(self) -> str:
        """Return the claim as a part of a sentence."""
        amounts = " and ".join(f"{shown(name, amount)} of {name}" for name, amount in self.at_most.items())
        return f"the pod requested at most {amounts} ({self.node} now)"


def shown(resource: str, amount: float) -> str:
    """Format an amount, of memory rounded down."""
    if resource in (names.CPU, names.MID_CPU):
        return f"{core_count(amount)} cores"
    if resource not in (names.MEMORY, names.MID_MEMORY):
        return str(amount)
    tenths = 10 * int(amount) // 2**30
    return f"{tenths / 10:.1f} GiB" if tenths else f"{int(amount) // _MIB} MiB"


def room(pod: Document, node: Document, on_node: Iterable[Document], state: NodeState) -> Room | None:
    """Return what would fit of a pod on a node with these pods; None where it cannot, or where that is not known."""
    if state.closed or not _may_run(pod["spec"], node):
        return None
    try:
        requests = pods.requests(msgspec.convert(pod["spec"], pods.PodSpec)) | {_PODS: 1}
        free = pods.units((node.get("status") or {}).get("allocatable"))
        bound = [other for other in on_node if (other.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
        if any((other["spec"].get("affinity") or {}).get("podAntiAffinity") for other in bound):
            return None
        for other in bound:
            used = pods.requests_in_force(msgspec.convert(other, pods.Pod)) | {_PODS: 1}
            free = {name: amount - used.get(name, 0) for name, amount in free.items()}
    except (quantities.InvalidQuantity, msgspec.ValidationError):
        return None
    for mid, lack in state.short.items():  # the Mid guard admits by what is calculated
        free[mid] = min(free.get(mid, 0), -lack)
    short = {name: free.get(name, 0) for name, amount in requests.items() if 0 < amount > free.get(name, 0)}
    at_most = {name: amount - amount % _MIB if "memory" in name else amount for name, amount in short.items()}
    return Room(node["metadata"]["name"], at_most) if at_most and min(at_most.values()) > 0 else None


def _may_run(spec: Document, node: Document) -> bool:
    """Check whether selector and taints let a pod run on a node; False where more than these decides."""
    volumes = (volume.keys() for volume in spec.get("volumes") or ())
    ports = (port for container in spec["containers"] for port in container.get("ports") or ())
    if (
        any(spec.get(key) for key in ("affinity", "topologySpreadConstraints", "resourceClaims", "schedulingGates"))
        or any({"persistentVolumeClaim", "ephemeral"} & volume for volume in volumes)
        or any(port.get("hostPort") for port in ports)
    ):
        return False
    labels, node_spec = node["metadata"].get("labels") or {}, node.get("spec") or {}
    taints = [taint for taint in node_spec.get("taints") or () if taint.get("effect") != "PreferNoSchedule"]
    tolerations = spec.get("tolerations") or ()
    return (
        not node_spec.get("unschedulable")
        and (spec.get("nodeSelector") or {}).items() <= labels.items()
        and all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints)
    )


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    is_same = toleration.get("value", "") == taint.get("value", "")
    return toleration["key"] == taint["key"] and (toleration.get("operator") == "Exists" or is_same)


def nearest(
    mid: Mapping[str, int | None], nodes: Sequence[NodeState], limits: Mapping[str, float]
) -> Iterator[NodeState]:
    """Yield the nodes with the least missing by their reports, the nearest first, without those above a usage limit.

    `mid` is what the pod requests.
    """

    def missing(node: NodeState) -> float:
        left = dict(zip(names.MID_RESOURCES, node.mid.minus(node.mid_requests), strict=True))
        return max(((amount - (left[name] or 0)) / amount for name, amount in mid.items() if amount), default=0.0)

    cool = (node for node in nodes if node.has_node and not node.above(limits))
    yield from sorted(cool, key=lambda node: (missing(node), node.name))

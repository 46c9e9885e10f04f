"""Wire types of the kube-scheduler extender protocol, v1 (defined by kube-scheduler, hence not in api_types).

Go writes the names of its fields unchanged, so the keys are capitalised; the pod inside has the usual keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from api_types.kubernetes import pods


class ClaimSource(msgspec.Struct, rename="camel", frozen=True):
    """Reference to a PersistentVolumeClaim in the pod's namespace."""

    claim_name: str = ""


class EphemeralSource(msgspec.Struct, frozen=True):
    """Template of a claim, whose name is that of the pod and the volume. None of it is kept."""


class Volume(msgspec.Struct, rename="camel", frozen=True):
    """A volume of a pod."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class RequestedPodSpec(pods.PodSpec, rename="camel", frozen=True):
    """Spec of a pod that is scheduled, with its volumes."""

    volumes: list[Volume] | None = None


class RequestedPodStatus(pods.PodStatus, rename="camel", frozen=True):
    """Status of a pod that is scheduled, with the node for which other pods are evicted."""

    nominated_node_name: str = ""


class RequestedPod(pods.Pod, rename="camel", frozen=True):
    """A pod that is scheduled."""

    spec: RequestedPodSpec = RequestedPodSpec()
    status: RequestedPodStatus = RequestedPodStatus()


def claim_names(pod: RequestedPod) -> list[str]:
    """Return the names of the PersistentVolumeClaims of a pod."""
    result = []
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            result.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            result.append(f"{pod.metadata.name}-{volume.name}")
    return result


def slim(pod: RequestedPod) -> RequestedPod:
    """Drop what is not read after filter: volumes without a claim."""
    volumes = [volume for volume in pod.spec.volumes or () if volume.persistent_volume_claim or volume.ephemeral]
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=volumes))


class ExtenderArgs(msgspec.Struct, rename="pascal", frozen=True):
    """Request of filter and prioritize. `nodes` holds whole nodes; sent if `nodeCacheCapable` is false."""

    pod: RequestedPod
    nodes: msgspec.Raw = msgspec.Raw(b"null")
    node_names: list[str] | None = None


class ExtenderBindingArgs(msgspec.Struct, frozen=True):
    """Request of bind."""

    pod_name: str = msgspec.field(name="PodName", default="")
    pod_namespace: str = msgspec.field(name="PodNamespace", default="")
    pod_uid: str = msgspec.field(name="PodUID", default="")
    node: str = msgspec.field(name="Node", default="")


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

    pod: RequestedPod
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None
    node_name_to_victims: msgspec.Raw = msgspec.Raw(b"null")


class ExtenderPreemptionResult(msgspec.Struct, rename="pascal", frozen=True):
    """Response of preempt: the candidates on which the pod would pass once the victims are gone."""

    node_name_to_meta_victims: Mapping[str, MetaVictims]


class ExtenderFilterResult(msgspec.Struct, rename="pascal", frozen=True, omit_defaults=True):
    """Response of filter that is not assembled from rows: no node passed, or one without a row."""

    node_names: Sequence[str] | None = None
    failed_nodes: Mapping[str, str] | None = None
    failed_and_unresolvable_nodes: Mapping[str, str] | None = None

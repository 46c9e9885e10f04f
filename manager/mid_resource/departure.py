"""Decide from a Node whether it is about to be removed, may be removed soon, or is cordoned. Pure.

A node that is about to be removed gives up its Mid pods, before they are killed with it. A taint for that is a promise
of an autoscaler, or of a handler of interruptions. Cordoning promises only that nothing new comes: `kubectl drain`
cordons and then evicts the pods itself, and `kubectl cordon` alone leaves them where they are. So a cordoned node
accepts no new Mid pod and keeps those that run, unless its memory is high. A candidate of cluster-autoscaler accepts
none either: that is only a soft taint, which is taken back when the node is needed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods
from manager.mid_resource.reasons import Closed

LEAVING_TAINTS: Final = frozenset({
    "karpenter.sh/disrupted",
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "cloud.google.com/impending-node-termination",
})  # fmt: skip
"""Keys of taints of a node that is removed within seconds or minutes. Karpenter sets its own for a spot
interruption too. A rebalance recommendation is none: such a node often stays."""
CANDIDATE_TAINT: Final = "DeletionCandidateOfClusterAutoscaler"
CORDON_TAINT: Final = "node.kubernetes.io/unschedulable"
_KEPT_BY_ANNOTATION: Final = (names.ANNOTATION_DO_NOT_DISRUPT, names.ANNOTATION_SCALE_DOWN_DISABLED)


class Departure(NamedTuple):
    """Why a node accepts no new Mid pod, by its own object; `cause` is what shows it."""

    closed: Closed = Closed.NO
    cause: str = ""

    @property
    def is_leaving(self) -> bool:
        """Check whether the node is about to be removed, so that its Mid pods have to leave."""
        return self.closed is Closed.LEAVING


STAYS: Final = Departure()


def of(node: pods.Node) -> Departure:
    """Return whether a node leaves, may leave, or is cordoned; the strongest sign counts."""
    if node.metadata.deletion_timestamp is not None:
        return Departure(Closed.LEAVING, f"deletionTimestamp {node.metadata.deletion_timestamp}")
    taints = {taint.key for taint in node.spec.taints or ()}
    if leaving := sorted(LEAVING_TAINTS & taints):
        return Departure(Closed.LEAVING, f"taint {leaving[0]}")
    if node.spec.unschedulable or CORDON_TAINT in taints:
        return Departure(Closed.CORDONED, "spec.unschedulable" if node.spec.unschedulable else f"taint {CORDON_TAINT}")
    if CANDIDATE_TAINT in taints:
        return Departure(Closed.SCALE_DOWN_CANDIDATE, f"taint {CANDIDATE_TAINT}")
    return STAYS


def why_kept(node: pods.Node, autoscaler: str) -> str:
    """Return why no autoscaler would remove a node, however empty it is; empty where one would.

    `autoscaler` is `karpenter`, which removes only nodes that it made, or any other one.
    """
    annotations, labels = pods.annotations_of(node.metadata), pods.labels_of(node.metadata)
    for name in _KEPT_BY_ANNOTATION:
        if annotations.get(name) == "true":
            return f"its annotation {name} is true"
    if names.LABEL_CONTROL_PLANE in labels:
        return f"it has the label {names.LABEL_CONTROL_PLANE}"
    if autoscaler == "karpenter" and names.LABEL_NODE_POOL not in labels:
        return f"it lacks the label {names.LABEL_NODE_POOL}: Karpenter did not make it"
    return ""

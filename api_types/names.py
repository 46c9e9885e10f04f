"""Define the names on the wire: API group, labels, annotations, resources, well-known objects.

All of them are Koordinator's unless marked "of this project". Each component therefore also works beside the other
components of Koordinator.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "slo.koordinator.sh"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
NODE_METRIC_KIND: Final = "NodeMetric"
NODE_METRIC_LIST_KIND: Final = "NodeMetricList"
NODE_METRIC_PLURAL: Final = "nodemetrics"
NODE_METRIC_SINGULAR: Final = "nodemetric"

NAMESPACE: Final = "koordinator-system"
SLO_CONTROLLER_CONFIG: Final = "slo-controller-config"
LAST_GOOD_CONFIG: Final = "koord-manager-last-good-config"
"""ConfigMap in which the manager keeps the last valid document."""
COLOCATION_CONFIG_KEY: Final = "colocation-config"

CPU: Final = "cpu"
MEMORY: Final = "memory"
MID_CPU: Final = "kubernetes.io/mid-cpu"
MID_MEMORY: Final = "kubernetes.io/mid-memory"
BATCH_CPU: Final = "kubernetes.io/batch-cpu"
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"
MID_RESOURCES: Final = (MID_CPU, MID_MEMORY)

LABEL_PRIORITY_CLASS: Final = "koordinator.sh/priority-class"
LABEL_QOS: Final = "koordinator.sh/qosClass"
LABEL_SKIP_LOAD_AWARE: Final = "koordinator.sh/skip-load-aware"
"""Of this project, on a pod: "true" exempts it from the limits of LoadAwareScheduling."""
LABEL_CPU_RECLAIM_RATIO: Final = "node.koordinator.sh/cpu-reclaim-ratio"
LABEL_MEMORY_RECLAIM_RATIO: Final = "node.koordinator.sh/memory-reclaim-ratio"
LABEL_MID_STATIC_CPU_RESERVED_RATIO: Final = "node.koordinator.sh/mid-static-cpu-reserved-ratio"
LABEL_MID_STATIC_MEMORY_RESERVED_RATIO: Final = "node.koordinator.sh/mid-static-memory-reserved-ratio"
LABELS_WITHOUT_DAEMON_SETS: Final = {
    "eks.amazonaws.com/compute-type": "fargate",
    "type": "virtual-kubelet",
    "virtualization": "virtualnode2",
}
"""Labels of nodes that run no pod of a DaemonSet, so no agent: Fargate, virtual kubelets, virtual nodes of AKS. The
default affinity of the agent in the chart excludes them."""

ANNOTATION_COLOCATION_STRATEGY: Final = "node.koordinator.sh/colocation-strategy"
ANNOTATION_RAW_ALLOCATABLE: Final = "node.koordinator.sh/raw-allocatable"
ANNOTATION_NODE_RESERVATION: Final = "node.koordinator.sh/reservation"
ANNOTATION_USAGE_THRESHOLDS: Final = "scheduling.koordinator.sh/usage-thresholds"
ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS: Final = "scheduling.koordinator.sh/load-estimated-scaling-factors"
ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED: Final = (
    "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
)
ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED: Final = (
    "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
)
ANNOTATION_RESERVE_POD: Final = "scheduling.koordinator.sh/reserve-pod"
ANNOTATION_STATIC_POD_HASH: Final = "kubernetes.io/config.hash"
"""On a mirror pod: the UID of the static pod, which its cgroup names contain."""
ANNOTATION_MIRROR_POD: Final = "kubernetes.io/config.mirror"
"""On a mirror pod: the same text again. Any author of a pod may write both."""

ANNOTATION_RESET_PREDICTION: Final = "koordinator.sh/reset-prediction"
"""On a NodeMetric, any text: each new value makes the agent discard its recorded history once."""
ANNOTATION_MID_STATUS: Final = "koordinator.sh/mid-resource-status"
"""Of this project: every term of the published Mid resources, its source and time, the reason code."""

ANNOTATION_MID_EVICTION: Final = "koordinator.sh/mid-eviction"
"""Of this project, on a node: its last eviction of a Mid pod; while it is there, the node accepts no new Mid pod."""
ANNOTATION_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""Of Karpenter, on a node or a pod: "true" keeps the node from being removed."""
ANNOTATION_SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""Of cluster-autoscaler, on a node: "true" keeps it from being removed."""
LABEL_NODE_POOL: Final = "karpenter.sh/nodepool"
"""Of Karpenter, on each node that it made."""
NODE_POOL_LABELS: Final = (
    LABEL_NODE_POOL, "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool"
)  # fmt: skip
"""Labels by which clouds and autoscalers mark the nodes of one pool."""
LABEL_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
LABEL_CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
ANNOTATION_EVICTION_PRIORITY: Final = "koordinator.sh/eviction-priority"
"""On a pod, an integer, 0 by default: pods with a lower one are evicted first."""
ANNOTATION_EVICTION_POLICY: Final = "koordinator.sh/eviction-policy"
"""On a pod, a JSON list of the features that may evict it; absent: all."""
LABEL_PRIORITY: Final = "koordinator.sh/priority"
"""On a pod, an integer, its priority by default: the order of eviction among pods of one priority."""

ANNOTATION_SIMULATION: Final = "koordinator.sh/simulation"
"""Of this project, on a pod of a recording: what it uses in a simulation."""
ANNOTATION_VPA_UPDATES: Final = "vpaUpdates"
"""Of the Vertical Pod Autoscaler, on a pod: what it changed in the new pod."""
ANNOTATION_VPA_IN_PLACE: Final = "vpaInPlaceUpdated"
"""Of the Vertical Pod Autoscaler, on a pod: "true" where it resized the running pod."""
ANNOTATION_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Of Kubernetes, on a PersistentVolumeClaim: the node for which a volume is being provisioned."""

LABEL_MID_NAMESPACE: Final = "koordinator.sh/mid"
"""Label of a namespace; `enabled` makes Mid pods of those without a class of their own."""
ANNOTATION_MID_QUOTA: Final = "koordinator.sh/mid-quota"
"""Of this project, on a Namespace: the most Mid resources that its pods may hold, `{"cpu": "20", "memory": "64Gi"}`."""

ANNOTATION_COLOCATION_CONFIG_STATUS: Final = "koordinator.sh/colocation-config-status"
"""Of this project, on the ConfigMap of the users: the status of the document, as a condition in YAML."""

READ_OF_TENANTS: Final = frozenset(
    (
        LABEL_PRIORITY_CLASS, LABEL_QOS, LABEL_SKIP_LOAD_AWARE, LABEL_PRIORITY,
        ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS, ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
        ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED, ANNOTATION_RESERVE_POD,
        ANNOTATION_STATIC_POD_HASH, ANNOTATION_MIRROR_POD, ANNOTATION_EVICTION_PRIORITY,
        ANNOTATION_EVICTION_POLICY, ANNOTATION_SIMULATION, ANNOTATION_VPA_UPDATES,
        ANNOTATION_VPA_IN_PLACE, ANNOTATION_SELECTED_NODE, ANNOTATION_MID_QUOTA,
    )
)  # fmt: skip
"""Labels and annotations of tenants' objects that are read."""

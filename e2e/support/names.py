"""Names in the cluster that end-to-end tests and the demo read."""

from typing import Final

from tools.localcluster.layout import Layout

SUITE_NAMESPACE: Final = "koordinator-system"
CONFIG_MAP: Final = "slo-controller-config"
MID_CPU: Final = "kubernetes.io/mid-cpu"
MID_MEMORY: Final = "kubernetes.io/mid-memory"
STATUS_ANNOTATION: Final = "koordinator.sh/mid-resource-status"
"""Annotation of a node with every term of its Mid resources."""
OF_THE_SERVER: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
"""Metadata that the API server sets."""
THRESHOLDS_ANNOTATION: Final = "scheduling.koordinator.sh/usage-thresholds"
"""Annotation with a node's own load thresholds."""
STATE_HOST_PATH: Final = str(Layout().run / "koordlet")
"""Folder of the agent's checkpoint on the node: below one that `down` removes, so that the machine keeps nothing."""

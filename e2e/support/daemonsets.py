"""DaemonSet of a case, whose pods Kubernetes' own controller creates and a scheduler binds."""

from __future__ import annotations

from e2e.support import waiting, workloads
from e2e.support.scheduling import SchedulingHelper


def placed(scheduling: SchedulingHelper, name: str, scheduler: str, nodes: list[str]) -> list[str]:
    """Run a DaemonSet on these nodes until each of its pods is bound, then delete it; names of the nodes, sorted."""
    template = workloads.pod(name, scheduling.image, scheduler=scheduler, nodes=nodes)
    del template["metadata"]["name"]
    labels = template["metadata"]["labels"]
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    scheduling.cluster_client.create("DaemonSet", body, scheduling.namespace)

    def bound_to() -> list[str]:
        pods = scheduling.cluster_client.list("Pod", scheduling.namespace, label_selector=f"app={name}")
        return sorted(pod["spec"].get("nodeName", "") for pod in pods)

    try:
        return waiting.until("a pod on each node", bound_to, lambda seen: len(seen) == len(nodes) and all(seen))
    finally:
        scheduling.cluster_client.delete("DaemonSet", name, scheduling.namespace)

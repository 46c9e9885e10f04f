"""Reference model of the Prod pods and their requests, by Koordinator's and Kubernetes' rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from e2e.support.cluster_client import cpu_millis, units

BAND = {range(9000, 10000): "prod", range(7000, 8000): "mid", range(5000, 6000): "batch", range(3000, 4000): "free"}
ENDED = ("Succeeded", "Failed")
READ = {"cpu": cpu_millis, "memory": units}


def class_of(pod: Mapping[str, Any]) -> str:
    """Return the priority class: the band of the numeric priority, else by the QoS class of Kubernetes."""
    for band, name in BAND.items():
        if pod["spec"].get("priority") in band:
            return name
    return "batch" if pod["status"]["qosClass"] == "BestEffort" else "prod"


def cgroup_uid(pod: Mapping[str, Any]) -> str:
    """Return the UID in the name of the pod's cgroup: that of a static pod is not the UID of its mirror pod."""
    metadata = pod["metadata"]
    return str(metadata.get("annotations", {}).get("kubernetes.io/config.hash", metadata["uid"]))


def among(pods: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the Prod pods that have not ended."""
    return [pod for pod in pods if class_of(pod) == "prod" and pod["status"]["phase"] not in ENDED]


def cpu_limit_cores(pod: Mapping[str, Any]) -> float:
    """Return the CPU limit of a pod without init containers, infinite where one of its containers has none."""
    if pod["spec"].get("initContainers") or pod["spec"].get("resources"):
        return math.inf
    limits = [each.get("resources", {}).get("limits", {}).get("cpu") for each in pod["spec"]["containers"]]
    return sum(cpu_millis(limit) for limit in limits) / 1000 if all(limits) else math.inf


def requested(pod: Mapping[str, Any], resource: str) -> int:
    """Return the request of a pod for cpu (milli-cores) or memory (bytes).

    This is the sum of its containers and sidecars, or an init container with the sidecars before it, if that is more.
    """

    def of(container: Mapping[str, Any]) -> int:
        return READ[resource](container.get("resources", {}).get("requests", {}).get(resource, "0"))

    sidecars, most = 0, 0
    for each in pod["spec"].get("initContainers", ()):
        if each.get("restartPolicy") == "Always":
            sidecars += of(each)
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + of(each))
    return max(sidecars + sum(map(of, pod["spec"]["containers"])), most)

"""Series of pods and nodes in the shape of kube-state-metrics, which is not in the registries of the tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from e2e.support import loopback_page
from e2e.support.cluster_client import ClusterClient


def serving(cluster_client: ClusterClient) -> AbstractContextManager[int]:
    """Serve the objects of the moment of each scrape on loopback; yield the port."""

    def page() -> bytes:
        nodes, pods = cluster_client.list("Node"), cluster_client.list("Pod")
        return "\n".join([*_of_nodes(nodes), *_of_pods(pods), ""]).encode()

    return loopback_page.serving("text/plain; version=0.0.4", page)


def _of_nodes(nodes: list[dict[str, Any]]) -> Iterator[str]:
    for node in nodes:
        for part in ("capacity", "allocatable"):
            for resource, quantity in node["status"][part].items():
                labels = {"node": node["metadata"]["name"], "resource": _resource(resource)}
                yield _line(f"kube_node_status_{part}", labels, quantity)


def _of_pods(pods: list[dict[str, Any]]) -> Iterator[str]:
    for pod in pods:
        of_pod = {
            "namespace": pod["metadata"]["namespace"],
            "pod": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "node": pod["spec"].get("nodeName", ""),
        }
        yield _line("kube_pod_info", {**of_pod, "priority_class": pod["spec"].get("priorityClassName", "")}, "1")
        for container in pod["spec"]["containers"]:
            for resource, quantity in ((container.get("resources") or {}).get("requests") or {}).items():
                labels = {**of_pod, "container": container["name"], "resource": _resource(resource)}
                yield _line("kube_pod_container_resource_requests", labels, quantity)


def _resource(name: str) -> str:
    return "".join(each if each.isalnum() else "_" for each in name)


def _line(name: str, labels: Mapping[str, str], quantity: str) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{inside}}} {parse_quantity(quantity)}"

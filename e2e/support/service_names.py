"""Services outside the cluster: a Service whose endpoint is a port of this machine, with its name in the DNS."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from e2e.support.cluster_client import ClusterClient
from tools.localcluster import layout, running
from tools.localcluster.access import Cluster


@contextlib.contextmanager
def registered(
    cluster: Cluster, cluster_client: ClusterClient, namespace: str, name: str, *, port: int, target_port: int
) -> Iterator[str]:
    """Create a Service for a port of this machine, at the address that pods reach, and yield its name in the DNS.

    A name server without the Services of the cluster knows only the Services that a case names.
    """
    ports = [{"name": "http", "port": port, "targetPort": target_port, "protocol": "TCP"}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports}}
    made = cluster_client.create("Service", service, namespace)
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": target_port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [running.provider().host_address()], "conditions": {"ready": True}}],
    }
    cluster_client.create("EndpointSlice", endpoints, namespace)
    full_name = f"{name}.{namespace}.svc"
    file = cluster.service_names / full_name if cluster.service_names else None
    if file:
        file.write_text(f"{made['spec']['clusterIP']} {full_name}.{layout.CLUSTER_DOMAIN}\n")
    try:
        yield full_name
    finally:
        if file:
            file.unlink(missing_ok=True)
        cluster_client.delete("Service", name, namespace)

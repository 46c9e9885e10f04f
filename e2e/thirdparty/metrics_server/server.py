"""metrics-server as a process of this machine that the cluster's apiserver serves as `metrics.k8s.io`.

An APIService points at a Service whose endpoint is the address at which pods reach this machine.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from e2e.support import waiting
from e2e.thirdparty.metrics_server import build
from tools.localcluster import health, running
from tools.localcluster.access import Cluster
from tools.localcluster.host import processes
from tools.localcluster.host.processes import Program

RAW_NODES: Final = "/apis/metrics.k8s.io/v1beta1/nodes"
_NAME: Final = "metrics-server"
_OBJECT: Final = "case-metrics-server"
_NAMESPACE: Final = "kube-system"
_API_SERVICE: Final = "v1beta1.metrics.k8s.io"
_START_SECONDS: Final = 60.0
_LAST_CHARACTERS: Final = 3000  # of its log


@contextlib.contextmanager
def serving(cluster: Cluster, folder: Path, node: str) -> Iterator[MetricsServer]:
    """Run one until the end of the context; begin once the API server serves its numbers of a node."""
    made = MetricsServer(cluster, folder)
    try:
        made.start()
        made.wait_for(node)
        yield made
    finally:
        made.clear()


class MetricsServer:
    """One server, which measures every ten seconds."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._address = running.provider().host_address()
        with socket.create_server((self._address, 0)) as listener:
            self._port: int = listener.getsockname()[1]

    def start(self) -> None:
        """Start it and have the apiserver serve it."""
        login = self._cluster.kubeconfig
        flags = {
            "bind-address": self._address,
            "secure-port": self._port,
            "cert-dir": self._folder,
            "kubeconfig": login,
            "authentication-kubeconfig": login,
            "authorization-kubeconfig": login,
            "kubelet-insecure-tls": "true",
            "kubelet-preferred-address-types": "InternalIP",
            "metric-resolution": "10s",
            "kubelet-request-timeout": "5s",
        }
        argv = [str(build.binary()), *(f"--{name}={value}" for name, value in flags.items())]
        processes.start(Program(_NAME, argv, {}), self._folder)
        url = f"https://{self._address}:{self._port}/livez"
        health.wait("metrics-server", lambda: health.responds(url), _START_SECONDS, _NAME, self._folder)
        listed = {"apiVersion": "v1", "kind": "List", "items": self._objects()}
        self._cluster.run("apply", "--filename=-", stdin=json.dumps(listed))

    def wait_for(self, node: str) -> None:
        """Wait until the API server serves its numbers of a node. Raises TimeLimitExceeded, with the log."""

        def measured() -> set[str]:
            return {item["metadata"]["name"] for item in self.node_metrics()}

        try:
            waiting.until("it is available", self.availability, lambda seen: seen["status"] == "True")
            waiting.until("it has measured the node", measured, lambda seen: node in seen, within_seconds=120)
        except waiting.TimeLimitExceeded as not_so:
            not_so.add_note(f"log of metrics-server:\n{self.log()}")
            raise

    def ends(self) -> None:
        """End the process; the apiserver still knows of it."""
        processes.stop(_NAME, self._folder)

    def clear(self) -> None:
        """End it, and take every object away."""
        self.ends()
        self._cluster.run("delete", "--ignore-not-found", "apiservice", _API_SERVICE)
        in_namespace = (f"service/{_OBJECT}", f"endpointslice/{_OBJECT}")
        self._cluster.run("delete", "--ignore-not-found", "--namespace", _NAMESPACE, *in_namespace)

    def availability(self) -> dict[str, str]:
        """Return the condition Available of the APIService, with status, reason and message. Raises LookupError."""
        conditions = self._cluster.get("apiservice", _API_SERVICE).get("status", {}).get("conditions", ())
        for each in conditions:
            if each["type"] == "Available":
                return dict(each)
        raise LookupError(f"{_API_SERVICE} has no status yet")

    def log(self) -> str:
        """Return the end of its log."""
        return (self._folder / f"{_NAME}.log").read_text(errors="replace")[-_LAST_CHARACTERS:]

    def node_metrics(self) -> list[dict[str, Any]]:
        """Return its items about nodes."""
        items: list[dict[str, Any]] = json.loads(self._cluster.run("get", "--raw", RAW_NODES))["items"]
        return items

    def _objects(self) -> list[dict[str, Any]]:
        there = {"name": _OBJECT, "namespace": _NAMESPACE}
        return [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": there,
                "spec": {"ports": [{"name": "https", "port": 443, "targetPort": self._port}]},
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {**there, "labels": {"kubernetes.io/service-name": _OBJECT}},
                "addressType": "IPv4",
                "ports": [{"name": "https", "port": self._port, "protocol": "TCP"}],
                "endpoints": [{"addresses": [self._address], "conditions": {"ready": True}}],
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": _API_SERVICE},
                "spec": {
                    "group": "metrics.k8s.io",
                    "version": "v1beta1",
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "insecureSkipTLSVerify": True,
                    "service": {**there, "port": 443},
                },
            },
        ]

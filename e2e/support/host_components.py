"""The three components as processes of this machine, with a control plane of their own: for faults that end pods.

Each authenticates with the token of a service account, read from a file as in a pod.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from e2e.support.cluster_client import ClusterClient
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import content_cache, progress, standalone_control_plane
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane

TOKEN_SECONDS = 600  # the minimum that the apiserver grants
_EXISTS = 409
CRD_FILE = content_cache.REPOSITORY / "crds/slo.koordinator.sh_nodemetrics.yaml"


def prepare(plane: ControlPlane) -> None:
    """Create what the components need before they start: the CRD and the namespace."""
    plane.install(CRD_FILE, SUITE_NAMESPACE)


class Account:
    """A service account with the role cluster-admin, and the files that authenticate as it."""

    def __init__(self, plane: ControlPlane, cluster_client: ClusterClient, name: str, server: str) -> None:
        self.name = name
        self.user = f"system:serviceaccount:{SUITE_NAMESPACE}:{name}"
        self._cluster_client = cluster_client
        self._token = plane.places.state / f"{name}.token"
        self.kubeconfig = plane.places.state / f"{name}.kubeconfig"
        authority = str(plane.places.certificates / "ca.crt") if server.startswith("https") else None
        cluster = {"server": server, **({"certificate-authority": authority} if authority else {})}
        _write_kubeconfig(self.kubeconfig, cluster, self._token)
        self._rbac = client.RbacAuthorizationV1Api(cluster_client.api_client)
        self.bind()
        self.renew()

    def bind(self) -> None:
        """Give the account its role, unless it has it."""
        binding = client.V1ClusterRoleBinding(
            metadata=client.V1ObjectMeta(name=self.name),
            role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="cluster-admin"),
            subjects=[client.RbacV1Subject(kind="ServiceAccount", name=self.name, namespace=SUITE_NAMESPACE)],
        )
        try:
            self._rbac.create_cluster_role_binding(binding)
        except client.ApiException as refused:
            if refused.status != _EXISTS:
                raise

    def unbind(self) -> None:
        """Take the role away: the API server refuses every request of the account."""
        self._rbac.delete_cluster_role_binding(self.name)

    def token(self) -> str:
        """Return the token in the file."""
        return self._token.read_text()

    def renew(self) -> None:
        """Delete and create the account, which revokes its tokens, and write a new token to the file."""
        self._cluster_client.delete("ServiceAccount", self.name, SUITE_NAMESPACE)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": self.name}}
        self._cluster_client.create("ServiceAccount", account, SUITE_NAMESPACE)
        self.rotate()

    def rotate(self) -> None:
        """Write a new token to the file, as the kubelet does before the old one expires."""
        request = client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(expiration_seconds=TOKEN_SECONDS, audiences=[])
        )
        given = self._cluster_client.core.create_namespaced_service_account_token(self.name, SUITE_NAMESPACE, request)
        fresh = self._token.with_suffix(".new")
        fresh.write_text(given.status.token)
        fresh.rename(self._token)


def _write_kubeconfig(path: Path, cluster: dict[str, Any], token: Path) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))


class Part:
    """One component that is started again whenever it has ended, as the kubelet would."""

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        account: Account,
        *argv: object,
        run: str = "-m",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.port = ports.free_port()
        self._plane = plane
        own = ("--kubeconfig", account.kubeconfig, "--http-address", "127.0.0.1", "--http-port", self.port)
        self._argv = (run, *argv, *own)
        self._environment = environment or {}
        self._start()
        plane.wait_for_page(self._plane.process(name), self.port, "/healthz")

    def ensure_running(self) -> standalone_control_plane.Running:
        """Return the running process, started again when it has ended; its last errors are reported then."""
        try:
            return self._plane.process(self.name)
        except ClusterProblem as ended:
            progress.report(str(ended))
            return self._start()

    def _start(self) -> standalone_control_plane.Running:
        return self._plane.start_python(self.name, *self._argv, **self._environment)

    def metric(self, name: str, **labels: str) -> float:
        """Return a sample of its metrics. Raises LookupError."""
        wanted = name + ("{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else "")
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as page:
            for line in page.read().decode().splitlines():
                if line.startswith(f"{wanted} "):
                    return float(line.split()[-1])
        raise LookupError(f"{self.name} has no metric {wanted}")

    def leads(self) -> bool:
        """Return whether this is the manager that holds the Lease; False also while it does not answer."""
        try:
            return self.metric("koord_manager_leader") == 1
        except (LookupError, OSError):
            return False


def add_node(cluster_client: ClusterClient, name: str) -> None:
    """Create a node of 16 cores and 64 GiB."""
    have = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    cluster_client.create("Node", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    cluster_client.patch_status("Node", name, {"status": {"capacity": have, "allocatable": have}})


def configure(cluster_client: ClusterClient, document: dict[str, Any]) -> None:
    """Make the ConfigMap that users edit."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config"},
        "data": {"colocation-config": json.dumps(document)},
    }
    cluster_client.create("ConfigMap", body, SUITE_NAMESPACE)

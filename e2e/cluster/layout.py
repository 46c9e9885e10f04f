"""Where the local cluster keeps things, and the addresses it uses.

Everything lasting lies under the state folder, sockets and mounts under `/run` (a unix socket path may have 107 bytes,
and a checkout may lie deep). `down` removes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import content_cache

NODE_NAME = "local"

BRIDGE = "cni0"
HOST_ADDRESS = "10.244.0.1"
"""Of the bridge: the one address that the host, its pods and host-network pods all reach; apiserver and kubelet listen
on it alone, so that nothing is exposed to other machines.
"""
POD_SUBNET = "10.244.0.0/24"
CLUSTER_SUBNET = "10.244.0.0/16"
SERVICE_SUBNET = "10.96.0.0/16"
APISERVER_SERVICE_ADDRESS = "10.96.0.1"

APISERVER_PORT = 6443
ETCD_CLIENT_PORT = 2379
ETCD_PEER_PORT = 2380
PORTS = {
    ETCD_CLIENT_PORT: "etcd clients",
    ETCD_PEER_PORT: "etcd peers",
    APISERVER_PORT: "kube-apiserver",
    10257: "kube-controller-manager",
    10259: "kube-scheduler",
    10250: "kubelet",
    10248: "kubelet health",
    10249: "kube-proxy metrics",
    10256: "kube-proxy health",
}


@dataclass(frozen=True)
class Layout:
    """Files and folders of one local cluster."""

    state: Path = content_cache.ROOT / "local-cluster"
    run: Path = Path("/run/koord-suite")

    @property
    def processes(self) -> Path:
        """Pid files and logs."""
        return self.state / "processes"

    @property
    def certificates(self) -> Path:
        """Keys and certificates, with the kubeconfig of each client beside them."""
        return self.state / "certificates"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.state / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON document a line; what is recorded stands in node_files/audit-policy.yaml."""
        return self.state / "audit.log"

    @property
    def machine_before(self) -> Path:
        """What the machine looked like before the first `up`."""
        return self.state / "machine-before.json"

    @property
    def containerd_socket(self) -> Path:
        """For the kubelet and for ctr."""
        return self.run / "containerd.sock"

    def client_kubeconfig(self, name: str) -> Path:
        """Of one component."""
        return self.certificates / f"{name}.kubeconfig"

"""Where the local cluster keeps things, and the addresses it uses.

Everything lasting lies under the state folder, sockets and mounts under `/run` (a unix socket path may have 107 bytes,
and a checkout may lie deep). `down` removes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.localcluster import content_cache

NODE_NAME = "local"
FAKE_NODE_LABEL = "koord-suite.io/fake"
"""Of nodes without a machine, whoever provides the cluster."""

BRIDGE = "cni0"
HOST_ADDRESS = "10.244.0.1"
"""Of the bridge: the one address that the host, its pods and host-network pods all reach; apiserver and kubelet listen
on it alone, so that nothing is exposed to other machines.
"""
POD_SUBNET = "10.244.0.0/24"
CLUSTER_SUBNET = "10.244.0.0/16"
SERVICE_SUBNET = "10.96.0.0/16"
APISERVER_SERVICE_ADDRESS = "10.96.0.1"


@dataclass(frozen=True)
class ControlPlaneAddresses:
    """Where the control plane listens: the apiserver on `apiserver_host`, everyone else on loopback."""

    apiserver_host: str = HOST_ADDRESS
    apiserver_port: int = 6443
    etcd_client_port: int = 2379
    etcd_peer_port: int = 2380
    controller_manager_port: int = 10257
    scheduler_port: int = 10259

    @property
    def apiserver(self) -> str:
        """URL of the apiserver."""
        return f"https://{self.apiserver_host}:{self.apiserver_port}"

    @property
    def etcd(self) -> str:
        """URL for etcd's clients."""
        return f"http://127.0.0.1:{self.etcd_client_port}"

    @property
    def etcd_peer(self) -> str:
        """URL for etcd's peers, of which there are none."""
        return f"http://127.0.0.1:{self.etcd_peer_port}"

    def ports(self) -> dict[int, str]:
        """Every port, and who listens on it."""
        return {
            self.etcd_client_port: "etcd clients",
            self.etcd_peer_port: "etcd peers",
            self.apiserver_port: "kube-apiserver",
            self.controller_manager_port: "kube-controller-manager",
            self.scheduler_port: "kube-scheduler",
        }


NODE_PORTS = {
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
    addresses: ControlPlaneAddresses = ControlPlaneAddresses()

    @property
    def ports(self) -> dict[int, str]:
        """Every port that must be free, and what for."""
        return {**self.addresses.ports(), **NODE_PORTS}

    @property
    def processes(self) -> Path:
        """Pid files and logs."""
        return self.state / "processes"

    @property
    def certificates(self) -> Path:
        """Keys and certificates, with the kubeconfig of each client beside them."""
        return self.state / "certificates"

    @property
    def front_proxy(self) -> Path:
        """By what the apiserver shows servers behind it that it is the apiserver: an authority of its own."""
        return self.certificates / "front-proxy"

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

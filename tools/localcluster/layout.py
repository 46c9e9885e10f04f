"""Files, folders and addresses of the local cluster.

The state folder holds all data; sockets and mounts are under `/run`, because a unix socket path may have at most 107
bytes. `down` removes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.localcluster import content_cache

NODE_NAME = "local"
FAKE_NODE_LABEL = "koord-suite.io/fake"
"""Label of nodes without a machine, with every provider."""

BRIDGE = "cni0"
NODES_LINK = "koord-nodes"
"""Link of this machine to the network of the provider `nodes`."""
HOST_ADDRESS = "10.244.0.1"
"""Address of the bridge. The host, its pods and host-network pods all reach it; apiserver and kubelet listen only
there, so that nothing is exposed to other machines.
"""
POD_SUBNET = "10.244.0.0/24"
CLUSTER_SUBNET = "10.244.0.0/16"
SERVICE_SUBNET = "10.96.0.0/16"
APISERVER_SERVICE_ADDRESS = "10.96.0.1"
CLUSTER_DOMAIN = "cluster.local"


@dataclass(frozen=True)
class ControlPlaneAddresses:
    """Addresses of the control plane: the apiserver listens on `apiserver_host`, the other components on loopback.

    services: the addresses of Services. apiserver_service: the address of the Service `kubernetes`.
    """

    apiserver_host: str = HOST_ADDRESS
    apiserver_port: int = 6443
    etcd_client_port: int = 2379
    etcd_peer_port: int = 2380
    controller_manager_port: int = 10257
    scheduler_port: int = 10259
    services: str = SERVICE_SUBNET
    apiserver_service: str = APISERVER_SERVICE_ADDRESS

    @property
    def apiserver(self) -> str:
        """Return the URL of the apiserver."""
        return f"https://{self.apiserver_host}:{self.apiserver_port}"

    @property
    def etcd(self) -> str:
        """Return the URL for etcd's clients."""
        return f"http://127.0.0.1:{self.etcd_client_port}"

    @property
    def etcd_peer(self) -> str:
        """Return the URL for etcd's peers, of which there are none."""
        return f"http://127.0.0.1:{self.etcd_peer_port}"

    def ports(self) -> dict[int, str]:
        """Return every port with the component that listens on it."""
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
        """Return every port that must be free, with its purpose."""
        return {**self.addresses.ports(), **NODE_PORTS}

    @property
    def processes(self) -> Path:
        """Return the folder of pid files and logs."""
        return self.state / "processes"

    @property
    def certificates(self) -> Path:
        """Return the folder of keys, certificates and the clients' kubeconfigs."""
        return self.state / "certificates"

    @property
    def front_proxy(self) -> Path:
        """Return the folder of the authority by which the apiserver identifies itself to aggregated API servers."""
        return self.certificates / "front-proxy"

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.state / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Return the audit log: one JSON document per line, as node_files/audit-policy.yaml selects."""
        return self.state / "audit.log"

    @property
    def service_names(self) -> Path:
        """Return the folder of the name server's files: lines of an address and the name of a Service."""
        return self.state / "service-names"

    @property
    def kubernetes_version(self) -> Path:
        """Return the file with the version of the programs that the first `up` started."""
        return self.state / "kubernetes-version"

    @property
    def machine_before(self) -> Path:
        """Return the file with the state of the machine before the first `up`."""
        return self.state / "machine-before.json"

    @property
    def state_record(self) -> Path:
        """Return the file that names the state folder, for the `up` of another checkout after this one was killed."""
        return self.run / "state-folder"

    @property
    def containerd_socket(self) -> Path:
        """Return containerd's socket, which the kubelet and ctr use."""
        return self.run / "containerd.sock"

    def client_kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of one component."""
        return self.certificates / f"{name}.kubeconfig"

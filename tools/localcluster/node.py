"""The real node: containerd, kubelet, kube-proxy and a name server, with the pod network shared with the host.

containerd is Debian's, with a configuration, state and socket of its own: a containerd that the machine already runs is
not touched.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from string import Template

from tools.localcluster import go_binaries, health, layout
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, processes
from tools.localcluster.host.processes import Program
from tools.localcluster.layout import Layout

FILES = Path(__file__).parent / "node_files"
PAUSE_IMAGE = "docker.io/koord-suite/pause:local"
REGISTRIES = layout.Layout().run / "certs.d"
"""Folder of every node with the registries that its containerd trusts, HOST:PORT/hosts.toml, where a test has some."""
READY_TIMEOUT_SECONDS = 120.0
CONTAINERD_RECOVERING = "server is not initialized yet"  # the kubelet exits with this error
CADVISOR_CONNECTS_UNTIL = 34
"""Newest minor version of Kubernetes that is known to have the kubelet's flag --containerd; 1.37 has none."""
DNS_PORT = 53
SYSTEMD_RESOLV_CONF = Path("/run/systemd/resolve/resolv.conf")


def programs(places: Layout, binaries: Path) -> list[Program]:
    """Return all programs, in the order of their start."""
    return [name_server(places), containerd(places), kubelet(places, binaries), kube_proxy(places, binaries)]


def start_one(program: Program, places: Layout) -> None:
    """Start one program, unless it runs, and wait until it is ready."""
    processes.start(program, places.processes)
    is_ready = READY_CHECKS[program.name]
    name = program.name
    health.wait(f"{name} ready", lambda: is_ready(places), READY_TIMEOUT_SECONDS, name, places.processes)


def start_kubelet(program: Program, places: Layout) -> None:
    """Start the kubelet; start it again while a restarted containerd is still recovering its containers."""
    for _ in range(int(READY_TIMEOUT_SECONDS)):
        try:
            return start_one(program, places)
        except ClusterProblem:
            if CONTAINERD_RECOVERING not in processes.last_errors(program.name, places.processes):
                raise
            time.sleep(1)
    return start_one(program, places)


READY_CHECKS: dict[str, Callable[[Layout], bool]] = {
    "dnsmasq": lambda places: _accepts(places.addresses.apiserver_host, DNS_PORT),
    "containerd": lambda places: places.containerd_socket.exists() and commands.succeeds(ctr(places, "version")),
    "kubelet": lambda _: health.responds("http://127.0.0.1:10248/healthz"),
    "kube-proxy": lambda _: health.responds("http://127.0.0.1:10256/healthz"),
}


def ctr(places: Layout, *words: str | Path) -> list[str]:
    """Return the command line of containerd's client, in the namespace of the kubelet's containers."""
    return ["ctr", "--address", str(places.containerd_socket), "--namespace", "k8s.io", *map(str, words)]


def write_configuration(places: Layout) -> None:
    """Write the configuration of containerd, of the pod network and of the kubelet."""
    network = places.state / "cni"
    network.mkdir(parents=True, exist_ok=True)
    places.service_names.mkdir(parents=True, exist_ok=True)
    places.run.mkdir(parents=True, exist_ok=True)
    (network / "10-koord-suite.conflist").write_text(json.dumps(pod_network(places), indent=2))
    values = {
        "root": places.state / "containerd",
        "run": places.run,
        "socket": places.containerd_socket,
        "opt": places.state / "containerd-opt",
        "pause_image": PAUSE_IMAGE,
        "registries": REGISTRIES,
        "network": network,
    }
    (places.state / "containerd.toml").write_text(Template((FILES / "containerd.toml").read_text()).substitute(values))
    (places.state / "kubelet.json").write_text(json.dumps(kubelet_configuration(places), indent=2))


def pod_network(places: Layout) -> dict[str, object]:
    """Return the CNI configuration: pods are attached to the bridge that has the host's address."""
    return {
        "cniVersion": "1.0.0",
        "name": "koord-suite",
        "plugins": [
            {
                "type": "bridge",
                "bridge": layout.BRIDGE,
                "isGateway": True,
                "ipMasq": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": layout.POD_SUBNET, "gateway": layout.HOST_ADDRESS}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": str(places.state / "cni-addresses"),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def kubelet_configuration(places: Layout) -> dict[str, object]:
    """Return the KubeletConfiguration. Allocatable is the machine's capacity less the eviction threshold."""
    return {
        **kubelet_settings(places.addresses.apiserver_host, places.certificates / "ca.crt", places.containerd_socket),
        "address": layout.HOST_ADDRESS,
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "resolvConf": str(resolv_conf()),
        "podLogsDir": str(places.state / "pod-logs"),
        "volumePluginDir": str(places.state / "volume-plugins"),
    }


def kubelet_settings(name_server: str, authority: Path, containerd_socket: Path) -> dict[str, object]:
    """Return what the KubeletConfigurations of all nodes have in common. The paths are those on the node."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "healthzBindAddress": "127.0.0.1",
        "containerRuntimeEndpoint": f"unix://{containerd_socket}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "failSwapOn": False,
        "clusterDNS": [name_server],
        "clusterDomain": layout.CLUSTER_DOMAIN,
        # A full disk must not evict pods, and images that were loaded by hand must not be collected.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "makeIPTablesUtilChains": False,
    }


def resolv_conf() -> Path:
    """Return the file with the name servers of the machine."""
    return SYSTEMD_RESOLV_CONF if SYSTEMD_RESOLV_CONF.exists() else Path("/etc/resolv.conf")


def name_server(places: Layout) -> Program:
    """Return the command of the cluster's name server, which reads new files in `service_names` at once.

    It does not follow the Services: a case writes the name of the Service that it creates. All other names are those
    of the machine.
    """
    argv = [
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--pid-file=",
        "--user=root",
        "--log-facility=-",
        f"--listen-address={places.addresses.apiserver_host}",
        "--bind-interfaces",
        f"--local=/{layout.CLUSTER_DOMAIN}/",
        "--no-hosts",
        f"--hostsdir={places.service_names}",
        f"--resolv-file={resolv_conf()}",
    ]
    return Program("dnsmasq", argv, {})


def _accepts(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False


def containerd(places: Layout) -> Program:
    """Return the command of the container runtime."""
    return Program("containerd", ["containerd", "--config", str(places.state / "containerd.toml")], {})


def kubelet(places: Layout, binaries: Path) -> Program:
    """Return the command of the kubelet, which registers as node `local` with the bridge's address."""
    argv = [
        str(binaries / "kubelet"),
        f"--config={places.state / 'kubelet.json'}",
        f"--kubeconfig={places.client_kubeconfig('kubelet')}",
        f"--root-dir={places.state / 'kubelet'}",
        f"--cert-dir={places.state / 'kubelet-serving'}",
        f"--hostname-override={layout.NODE_NAME}",
        f"--node-ip={layout.HOST_ADDRESS}",
    ]
    if go_binaries.minor() <= CADVISOR_CONNECTS_UNTIL:  # else cAdvisor's series lack the names of pods and containers
        argv.append(f"--containerd={places.containerd_socket}")
    return Program("kubelet", argv, {})


def kube_proxy(places: Layout, binaries: Path) -> Program:
    """Return the command of kube-proxy, which uses iptables.

    The zeros and the false leave the machine's conntrack and routing settings unchanged.
    """
    argv = [
        str(binaries / "kube-proxy"),
        f"--kubeconfig={places.client_kubeconfig('kube-proxy')}",
        f"--hostname-override={layout.NODE_NAME}",
        f"--cluster-cidr={layout.CLUSTER_SUBNET}",
        "--proxy-mode=iptables",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
        "--iptables-localhost-nodeports=false",
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=127.0.0.1:10249",
    ]
    return Program("kube-proxy", argv, {})

"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler: identities, command lines, readiness checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.localcluster import certificates, health, kubeconfigs, layout
from tools.localcluster.host import processes
from tools.localcluster.host.processes import Program
from tools.localcluster.layout import Layout

AUDIT_POLICY = Path(__file__).parent / "node_files" / "audit-policy.yaml"
READY_TIMEOUT_SECONDS = 180.0

CLIENTS = {
    "admin": ("koord-suite-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", None),
    "kube-scheduler": ("system:kube-scheduler", None),
    "kube-proxy": ("system:kube-proxy", None),
    "kubelet": (f"system:node:{layout.NODE_NAME}", "system:nodes"),
    "apiserver-to-kubelet": ("koord-suite-apiserver", "system:masters"),
}
"""Client certificate -> its user and group."""
FRONT_PROXY = "front-proxy-client"


def make_identities(places: Layout) -> None:
    """Make the certificates and kubeconfigs of all clients, unless an earlier `up` has made them."""
    if not places.kubeconfig.exists():
        _make_members(places)
    if not (places.front_proxy / f"{FRONT_PROXY}.crt").exists():
        certificates.make_authority(places.front_proxy, name="koord-suite-front-proxy")
        certificates.sign(places.front_proxy, FRONT_PROXY, user=FRONT_PROXY)


def _make_members(places: Layout) -> None:
    certificates.make_authority(places.certificates)
    certificates.make_token_keys(places.certificates)
    addresses = (
        "127.0.0.1", places.addresses.apiserver_host, places.addresses.apiserver_service,
        "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
    )  # fmt: skip
    server = places.addresses.apiserver
    certificates.sign(places.certificates, "apiserver", user="kube-apiserver", addresses=addresses)
    for name, (user, group) in CLIENTS.items():
        certificates.sign(places.certificates, name, user=user, group=group)
        kubeconfigs.write(
            places.client_kubeconfig(name), server=server, certificates_folder=places.certificates, name=name
        )
    kubeconfigs.write(places.kubeconfig, server=server, certificates_folder=places.certificates, name="admin")


def start(places: Layout, binaries: Path) -> None:
    """Start each program that does not run, in order, and wait until all are ready."""
    store, server, *clients = programs(places, binaries)
    start_one(store, places)
    start_one(server, places)
    for client in clients:
        processes.start(client, places.processes)
    for client in clients:
        start_one(client, places)


def start_one(program: Program, places: Layout, is_ready: Callable[[Layout], bool] | None = None) -> None:
    """Start one program, unless it runs, and wait until it is ready, by default as its name wants."""
    check = is_ready or READY_CHECKS[program.name]
    processes.start(program, places.processes)
    health.wait(
        f"{program.name} ready",
        lambda: check(places),
        READY_TIMEOUT_SECONDS,
        program.name,
        places.processes,
    )


READY_CHECKS: dict[str, Callable[[Layout], bool]] = {
    "etcd": lambda places: health.responds(f"{places.addresses.etcd}/readyz"),
    "kube-apiserver": lambda places: health.responds(
        f"{places.addresses.apiserver}/readyz", authority=places.certificates / "ca.crt"
    ),
    "kube-controller-manager": lambda places: health.responds(
        f"https://127.0.0.1:{places.addresses.controller_manager_port}/healthz"
    ),
    "kube-scheduler": lambda places: health.responds(f"https://127.0.0.1:{places.addresses.scheduler_port}/readyz"),
}


def programs(places: Layout, binaries: Path) -> list[Program]:
    """Return all programs, in the order of their start."""
    return [
        etcd(places, binaries),
        kube_apiserver(places, binaries, **audit_flags(places)),
        kube_controller_manager(places, binaries),
        kube_scheduler(places, binaries),
    ]


def etcd(places: Layout, binaries: Path) -> Program:
    """Return the command of etcd, without fsync: the data has no value after the cluster's end."""
    client, peer = places.addresses.etcd, places.addresses.etcd_peer
    return _program(
        binaries / "etcd",
        name="local",
        data_dir=places.state / "etcd",
        unsafe_no_fsync="true",
        log_level="warn",
        listen_client_urls=client,
        advertise_client_urls=client,
        listen_peer_urls=peer,
        initial_advertise_peer_urls=peer,
        initial_cluster=f"local={peer}",
    )


def kube_apiserver(places: Layout, binaries: Path, **more_flags: object) -> Program:
    """Return the command of the apiserver, by default on the bridge: there pods reach it as service `kubernetes`."""
    keys = places.certificates
    return _program(
        binaries / "kube-apiserver",
        advertise_address=places.addresses.apiserver_host,
        bind_address=places.addresses.apiserver_host,
        secure_port=places.addresses.apiserver_port,
        allow_privileged="true",
        authorization_mode="Node,RBAC",
        enable_admission_plugins="NodeRestriction",
        etcd_servers=places.addresses.etcd,
        service_cluster_ip_range=places.addresses.services,
        service_account_issuer="https://kubernetes.default.svc",
        service_account_key_file=keys / "sa.pub",
        service_account_signing_key_file=keys / "sa.key",
        tls_cert_file=keys / "apiserver.crt",
        tls_private_key_file=keys / "apiserver.key",
        client_ca_file=keys / "ca.crt",
        kubelet_client_certificate=keys / "apiserver-to-kubelet.crt",
        kubelet_client_key=keys / "apiserver-to-kubelet.key",
        kubelet_preferred_address_types="InternalIP",  # or `kubectl logs` asks DNS for the node's name
        profiling="false",
        **_aggregation_flags(places),
        **more_flags,
    )


def _aggregation_flags(places: Layout) -> dict[str, object]:
    """Return the apiserver's flags for aggregated APIs. It forwards the user's identity to them, as with kubeadm.

    It connects to a server's own address and not to that of its Service, which has no route until kube-proxy has set
    one: a gateway that accepts every address would then keep the connection.
    """
    keys = places.front_proxy
    return {
        "requestheader_client_ca_file": keys / "ca.crt",
        "requestheader_allowed_names": FRONT_PROXY,
        "requestheader_username_headers": "X-Remote-User",
        "requestheader_group_headers": "X-Remote-Group",
        "requestheader_extra_headers_prefix": "X-Remote-Extra-",
        "proxy_client_cert_file": keys / f"{FRONT_PROXY}.crt",
        "proxy_client_key_file": keys / f"{FRONT_PROXY}.key",
        "enable_aggregator_routing": "true",
    }


def audit_flags(places: Layout) -> dict[str, object]:
    """Return the apiserver's flags for an audit log."""
    return {
        "audit_policy_file": AUDIT_POLICY,
        "audit_log_path": places.audit_log,
        "audit_log_maxsize": 200,
        "audit_log_maxbackup": 3,
    }


def kube_controller_manager(places: Layout, binaries: Path, **more_flags: object) -> Program:
    """Return the command of the controller manager.

    It allocates no node CIDRs: the one real node's pod network is fixed, and fake nodes would exhaust the range.
    """
    return _program(
        binaries / "kube-controller-manager",
        kubeconfig=places.client_kubeconfig("kube-controller-manager"),
        authentication_kubeconfig=places.client_kubeconfig("kube-controller-manager"),
        authorization_kubeconfig=places.client_kubeconfig("kube-controller-manager"),
        bind_address="127.0.0.1",
        secure_port=places.addresses.controller_manager_port,
        leader_elect="false",
        use_service_account_credentials="true",
        service_account_private_key_file=places.certificates / "sa.key",
        flex_volume_plugin_dir=places.state / "volume-plugins",
        root_ca_file=places.certificates / "ca.crt",
        profiling="false",
        **more_flags,
    )


def kube_scheduler(places: Layout, binaries: Path, **more_flags: object) -> Program:
    """Return the command of the cluster's default scheduler."""
    return _program(
        binaries / "kube-scheduler",
        kubeconfig=places.client_kubeconfig("kube-scheduler"),
        authentication_kubeconfig=places.client_kubeconfig("kube-scheduler"),
        authorization_kubeconfig=places.client_kubeconfig("kube-scheduler"),
        bind_address="127.0.0.1",
        secure_port=places.addresses.scheduler_port,
        leader_elect="false",
        profiling="false",
        **more_flags,
    )


def _program(binary: Path, **flags: object) -> Program:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    return Program(binary.name, [str(binary), *words], {})

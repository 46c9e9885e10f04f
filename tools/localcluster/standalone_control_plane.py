"""Control plane beside the local cluster, for benchmarks and faults: etcd, kube-apiserver, optionally kube-scheduler.

It uses the programs of the local cluster on free ports of loopback and in a folder of its own. There is no kubelet and
no controller manager: nodes are plain objects, so none of them becomes unreachable. The folder and every process are
removed at the end, also after an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import shutil
import signal
import ssl
import sys
import tempfile
import types
import urllib.request
from collections.abc import Iterator, Mapping
from typing import NamedTuple, NoReturn

import psutil
import yaml

from tools.localcluster import apiserver_requests, content_cache, control_plane, go_binaries, health, layout, progress
from tools.localcluster.host import ports, processes
from tools.localcluster.host.processes import Program

_NOT_ADMITTING = "ServiceAccount,TaintNodesByCondition"
"""Admission plugins that need a controller manager: for service accounts, and to untaint new nodes."""


class ControlPlane(NamedTuple):
    """A running control plane."""

    places: layout.Layout
    binaries: pathlib.Path
    apiserver_binaries: pathlib.Path
    audited: bool = False
    apiserver_flags: Mapping[str, object] = types.MappingProxyType({})

    def start_apiserver(self) -> None:
        """Start the apiserver, also again after it has ended, and wait until it is ready."""
        flags = control_plane.audit_flags(self.places) if self.audited else {}
        program = control_plane.kube_apiserver(
            self.places,
            self.apiserver_binaries,
            disable_admission_plugins=_NOT_ADMITTING,
            endpoint_reconciler_type="none",  # no pod asks for it, and 1.37 publishes no loopback address
            **flags,
            **self.apiserver_flags,
        )
        control_plane.start_one(program, self.places)

    def start_etcd(self) -> None:
        """Start etcd with the data that it has, also again after it has ended, and wait until it is ready."""
        control_plane.start_one(control_plane.etcd(self.places, self.binaries), self.places)

    @property
    def kubeconfig(self) -> pathlib.Path:
        """Return the administrator's kubeconfig."""
        return self.places.kubeconfig

    def connect(self) -> apiserver_requests.Connection:
        """Return a connection with the administrator's rights, for one thread."""
        return apiserver_requests.Connection(self.places.addresses.apiserver_port, self.places.certificates)

    def token(self, account: str, namespace: str) -> str:
        """Return a new token of a service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        with contextlib.closing(self.connect()) as api:
            return str(api.send("POST", path, {"spec": {}})["status"]["token"])

    def account_kubeconfig(self, account: str, namespace: str) -> pathlib.Path:
        """Write a kubeconfig with a token of a service account; return the file."""
        authority = str(self.places.certificates / "ca.crt")
        server = f"https://127.0.0.1:{self.places.addresses.apiserver_port}"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": authority}}],
            "users": [{"name": "u", "user": {"token": self.token(account, namespace)}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
            "current-context": "x",
        }
        file = self.places.state / f"{account}.kubeconfig"
        file.write_text(yaml.safe_dump(document))
        return file

    def start(self, name: str, *argv: object, **environment: str) -> Running:
        """Start any program; it ends with the control plane, or by `stop`."""
        words = [str(word) for word in argv]
        processes.start(Program(name, words, environment), self.places.processes)
        return self.process(name)

    def start_python(
        self,
        name: str,
        *argv: object,
        flags: tuple[str, ...] = (),
        source: pathlib.Path = content_cache.REPOSITORY,
        **environment: str,
    ) -> Running:
        """Start a program of a checkout, with byte code in the temporary folder."""
        environment |= {"PYTHONPATH": str(source), "PYTHONSAFEPATH": "1"}  # and not the current folder
        environment |= {"PYTHONPYCACHEPREFIX": str(self.places.state / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
        return self.start(name, sys.executable, *flags, *argv, **environment)

    def process(self, name: str) -> Running:
        """Return a running program. Raises ClusterProblem with its last errors when it does not run."""
        processes.require_alive(name, self.places.processes)
        process = processes.find(name, self.places.processes)
        assert process is not None
        return Running(name, process)

    def log(self, name: str) -> pathlib.Path:
        """Return the log file of a program."""
        return self.places.processes / f"{name}.log"

    def stop(self, name: str) -> None:
        """End a program."""
        processes.stop(name, self.places.processes)

    def start_scheduler(
        self, configuration: dict[str, object], other: pathlib.Path | None = None, ready_path: str = "/readyz"
    ) -> Running:
        """Start kube-scheduler, or another build, with a KubeSchedulerConfiguration and wait until it is ready."""
        file = self.places.state / "kube-scheduler.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "leaderElection": {"leaderElect": False},
                    **configuration,
                    "clientConnection": {
                        "kubeconfig": str(self.places.client_kubeconfig("kube-scheduler")),
                        "qps": 5000,
                        "burst": 5000,
                    },
                }
            )
        )
        open_paths = "/healthz,/readyz,/livez,/metrics"
        program = control_plane.kube_scheduler(
            self.places, self.binaries, config=file, authorization_always_allow_paths=open_paths
        )
        if other is not None:
            program = dataclasses.replace(program, argv=[str(other), *program.argv[1:]])
        url = f"https://127.0.0.1:{self.places.addresses.scheduler_port}{ready_path}"
        control_plane.start_one(program, self.places, lambda _: health.responds(url))
        return self.process("kube-scheduler")

    def start_controllers(self, *names: str) -> None:
        """Start kube-controller-manager with these controllers only."""
        program = control_plane.kube_controller_manager(self.places, self.binaries, controllers=",".join(names))
        control_plane.start_one(program, self.places)

    def scheduler_metrics(self) -> str:
        """Return the text of kube-scheduler's Prometheus page."""
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE  # its certificate is self-signed
        url = f"https://127.0.0.1:{self.places.addresses.scheduler_port}/metrics"
        with urllib.request.urlopen(url, context=trust, timeout=30) as answer:
            return str(answer.read().decode())

    def wait_for_page(self, program: Running, port: int, path: str, timeout_seconds: float = 120) -> None:
        """Wait until a program serves a page. Raises ClusterProblem."""
        health.wait(
            f"{program.name} {path}",
            lambda: health.responds(f"http://127.0.0.1:{port}{path}"),
            timeout_seconds,
            program.name,
            self.places.processes,
        )

    def install(self, crd_file: pathlib.Path, namespace: str) -> None:
        """Create a CRD and a namespace, and wait until the custom resource is served."""
        crd = yaml.safe_load(crd_file.read_text())
        spec = crd["spec"]
        served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        with contextlib.closing(self.connect()) as api:
            api.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
            api.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            progress.wait_until(
                f"{served} served",
                lambda: apiserver_requests.exists(api, served),
                30,
                otherwise=lambda: None,
                poll=0.2,
            )


class Running(NamedTuple):
    """A process, and its CPU time and memory."""

    name: str
    process: psutil.Process

    def cpu_seconds(self) -> float:
        """Return user and system time, which the kernel counts in steps of 10 ms."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def rss_mebibytes(self) -> float:
        """Return the resident memory."""
        return float(self.process.memory_info().rss / 2**20)


@contextlib.contextmanager
def running(*, audited: bool = False, apiserver_version: str = "", **apiserver_flags: object) -> Iterator[ControlPlane]:
    """Start etcd and kube-apiserver, with an audit log if `audited`; end everything afterwards.

    `apiserver_version` is the Kubernetes version of kube-apiserver as `go_binaries.other_apiserver` takes it; empty is
    that of all programs. `apiserver_flags` are more flags of it, with `_` for `-`. Raises ClusterProblem.
    """
    binaries = go_binaries.everything()
    apiserver_binaries = go_binaries.other_apiserver(apiserver_version) if apiserver_version else binaries
    state = pathlib.Path(tempfile.mkdtemp(prefix="koord-suite-control-plane-"))
    places = layout.Layout(state=state, run=state, addresses=_free_addresses())
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, _leave)
    try:
        control_plane.make_identities(places)
        plane = ControlPlane(places, binaries, apiserver_binaries, audited, apiserver_flags)
        plane.start_etcd()
        plane.start_apiserver()
        yield plane
    finally:
        for number in handlers:
            signal.signal(
                number, signal.SIG_IGN
            )  # cleaning up takes seconds, and a second Ctrl-C must not leave half of it
        processes.end(processes.of_this_cluster(places.processes), grace_seconds=5)
        shutil.rmtree(state)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        progress.report("the control plane is gone")


def _free_addresses() -> layout.ControlPlaneAddresses:
    return layout.ControlPlaneAddresses("127.0.0.1", *ports.free_ports(5))


def _leave(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)

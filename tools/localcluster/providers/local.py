"""A one-node cluster of processes on this machine: no Docker, no registry. Needs root on Linux.

`up` reads like a parts list. It is repeatable: it checks what runs and starts what does not, so another `up` continues
after an interruption or a restart of the machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tools.localcluster import (
    access,
    cleanup,
    content_cache,
    control_plane,
    go_binaries,
    layout,
    node,
    pause_image,
    progress,
)
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, debian_packages, leftovers, network, ports, processes
from tools.localcluster.image_archives import Archive
from tools.localcluster.layout import Layout

STOP_ORDER = (
    "kubelet", "kube-proxy", "containerd", "dnsmasq", "kube-scheduler", "kube-controller-manager", "kube-apiserver",
    "etcd",
)  # fmt: skip
NODE_READY_SECONDS = 180.0


class Local:
    """Provider that runs the components as processes of this machine."""

    def __init__(self, places: Layout | None = None) -> None:
        self.places = places or Layout()

    def up(self) -> Cluster:
        """Build what is missing, then start the control plane and the node."""
        require_root_on_linux()
        places = self.places
        with alone(places):
            self._require_free_ports()
            self._require_its_version()
            debian_packages.ensure()
            binaries = go_binaries.everything()
            pause = pause_image.archive()
            self._record_the_machine()
            network.make_bridge()
            control_plane.make_identities(places)
            control_plane.start(places, binaries)
            node.write_configuration(places)
            node.start_one(node.name_server(places), places)
            node.start_one(node.containerd(places), places)
            self._import(pause, node.PAUSE_IMAGE)
            node.start_kubelet(node.kubelet(places, binaries), places)
            node.start_one(node.kube_proxy(places, binaries), places)
            cluster = self.cluster()
            self._wait_until_pods_can_run(cluster)
        return cluster

    def down(self) -> list[str]:
        """End every process and restore the machine."""
        require_root_on_linux()
        places = self.places
        if not self.exists():
            shutil.rmtree(places.state, ignore_errors=True)
            progress.report("no local cluster: nothing to end")
            return []
        with alone(places):
            before = leftovers.Machine.from_json(places.machine_before.read_text())
            self._end_pods()
            for name in STOP_ORDER:
                processes.stop(name, places.processes)
            progress.report(f"ended {', '.join(STOP_ORDER)}")
            processes.end(processes.of_this_cluster(places.processes), grace_seconds=2)
            cleanup.restore(places, before)
            remaining = [f"process: {p.pid} {p.name()}" for p in processes.of_this_cluster(places.processes)]
            shutil.rmtree(places.state)
            remaining += leftovers.differences(before, leftovers.observe())
        return remaining

    def exists(self) -> bool:
        """Return whether an `up` has started a cluster that no `down` has ended."""
        return self.places.machine_before.exists()

    def status(self) -> Mapping[str, str]:
        """Return the state of each component."""
        return component_states(reversed(STOP_ORDER), self.places)

    def cluster(self) -> Cluster:
        """Return access by the administrator's kubeconfig."""
        return access.reach("local", self.places.kubeconfig, self.places.audit_log, self.places.service_names)

    def load(self, archives: Sequence[Archive]) -> None:
        """Import each archive into containerd, under its reference and under the tag `dev`."""
        for archive in archives:
            self._import(archive, f"docker.io/{archive.reference.rpartition(':')[0]}:dev")

    def host_address(self) -> str:
        """Return the address of the bridge."""
        return layout.HOST_ADDRESS

    def shell(self, name: str, script: str) -> str:
        """Run a script on this machine, which is the node."""
        if name != layout.NODE_NAME:
            raise ClusterProblem(f"{name}: no such node; there is {layout.NODE_NAME}")
        return commands.run(["sh", "-c", script])

    def stop(self, component: str) -> None:
        """Stop the process of one component."""
        self._require_known(component)
        processes.stop(component, self.places.processes)
        progress.report(f"{component} stopped")

    def start(self, component: str) -> None:
        """Start the process of one component and wait until it is ready."""
        self._require_known(component)
        binaries, places = go_binaries.everything(), self.places
        programs = [*control_plane.programs(places, binaries), *node.programs(places, binaries)]
        (program,) = [program for program in programs if program.name == component]
        starter = control_plane.start_one if component in control_plane.READY_CHECKS else node.start_one
        starter(program, places)

    def _require_known(self, component: str) -> None:
        if component not in STOP_ORDER:
            raise ClusterProblem(f"{component}: no such component; there are {', '.join(STOP_ORDER)}")

    def _require_free_ports(self) -> None:
        """Check the ports before the build, which takes minutes. An earlier `up` holds the ports itself."""
        if not self.places.machine_before.exists():
            ports.require_free(self.places.ports)

    def _require_its_version(self) -> None:
        """Raise ClusterProblem where a cluster of another version is up: `up` starts what does not run of this one."""
        if not self.places.kubernetes_version.exists():
            return
        if (runs := self.places.kubernetes_version.read_text()) != (wanted := go_binaries.version()):
            raise ClusterProblem(
                f"a cluster of Kubernetes {runs} is up, and {wanted} is wanted; end it first: "
                f"python -m tools.localcluster down"
            )

    def _record_the_machine(self) -> None:
        if self.places.machine_before.exists():
            return
        self._end_killed_cluster()
        network.require_free_subnet()
        self.places.state.mkdir(parents=True, exist_ok=True)
        self.places.machine_before.write_text(leftovers.observe().to_json())
        self.places.kubernetes_version.write_text(go_binaries.version())
        self.places.run.mkdir(parents=True, exist_ok=True)
        self.places.state_record.write_text(f"{self.places.state}\n")

    def _end_killed_cluster(self) -> None:
        """Remove what is left of a cluster of another checkout, if all its processes were killed: no port is in use."""
        if not self.places.state_record.exists():
            return
        killed = Local(dataclasses.replace(self.places, state=Path(self.places.state_record.read_text().strip())))
        with progress.step(f"removing what is left of a killed cluster ({killed.places.state})"):
            if killed.exists():
                killed.down()
            else:
                cleanup.restore_unrecorded(killed.places)

    def _import(self, archive: Archive, second_name: str) -> None:
        known = commands.run(node.ctr(self.places, "images", "list", "--quiet")).split()
        reference = f"docker.io/{archive.reference}"
        if reference not in known:
            with progress.step(f"importing {archive.reference}"):
                commands.run(node.ctr(self.places, "images", "import", archive.file))
        commands.run(node.ctr(self.places, "images", "tag", "--force", reference, second_name))

    def _wait_until_pods_can_run(self, cluster: Cluster) -> None:
        def give_up() -> None:
            errors = processes.last_errors("kubelet", self.places.processes)
            raise ClusterProblem(f"node {layout.NODE_NAME} is not Ready after {NODE_READY_SECONDS:.0f} s: {errors}")

        def is_ready() -> bool:
            get = [cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "get", "--output=json"]
            try:
                account = commands.run([*get, "serviceaccount", "default"])
                listed = json.loads(commands.run([*get, "node", layout.NODE_NAME]))["status"]["conditions"]
            except ClusterProblem:
                return False
            return bool(account) and any(c["type"] == "Ready" and c["status"] == "True" for c in listed)

        progress.wait_until(f"node {layout.NODE_NAME} Ready", is_ready, NODE_READY_SECONDS, otherwise=give_up)

    def _end_pods(self) -> None:
        processes.stop("kubelet", self.places.processes)
        running = processes.of_this_cluster(self.places.processes)
        if any("shim" in process.name() for process in running):
            node.start_one(node.containerd(self.places), self.places)
            with progress.step("ending pods"):
                cleanup.end_pods(self.places)


def require_root_on_linux() -> None:
    """Raise ClusterProblem with the alternatives, except for root on Linux."""
    alternatives = "use a Docker engine (--provider kind) or a cluster you have (--provider existing, with KUBECONFIG)"
    if not sys.platform.startswith("linux"):
        raise ClusterProblem(f"a local cluster runs on Linux only, this is {sys.platform}; {alternatives}")
    if os.geteuid() != 0:
        raise ClusterProblem(
            f"a local cluster (kubelet, containerd, iptables) needs root: run it with sudo, or {alternatives}"
        )


@contextlib.contextmanager
def alone(places: Layout) -> Iterator[None]:
    """Hold the lock of `up` and `down`. Raises ClusterProblem while another command holds it."""
    content_cache.ROOT.mkdir(exist_ok=True)
    with Path(f"{places.state}.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            raise ClusterProblem(f"another `up` or `down` holds {lock.name}; wait for it to end") from taken
        yield


def component_states(names: Iterable[str], places: Layout) -> dict[str, str]:
    """Return the state of each component that runs as a process of this machine, in words."""
    states = {}
    checks = {**control_plane.READY_CHECKS, **node.READY_CHECKS}
    for name in names:
        if processes.find(name, places.processes) is None:
            states[name] = "not running"
        else:
            states[name] = "ok" if checks[name](places) else "running, but not ready"
    return states

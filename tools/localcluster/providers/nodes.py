"""A cluster of several nodes, each a machine with systemd and cgroup v2: no KVM, no Docker, no registry. Needs root.

The control plane runs on this machine, as in a local cluster and beside one. `up` is repeatable.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import psutil

from tools.localcluster import access, content_cache, control_plane, go_binaries, health, node, pause_image, progress
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, debian_packages, ports, processes
from tools.localcluster.image_archives import Archive
from tools.localcluster.layout import ControlPlaneAddresses, Layout
from tools.localcluster.nodes import disk, images, kernel, network
from tools.localcluster.nodes.machine import Machine
from tools.localcluster.providers import local

USUAL_COUNT: Final = 2
PACKAGES: Final = {
    "bc": ("bc",),
    "bison": ("bison",),
    "dnsmasq-base": ("dnsmasq",),
    "e2fsprogs": ("mke2fs",),
    "flex": ("flex",),
    "gcc": ("gcc",),
    "iproute2": ("ip",),
    "libc6-dev": ("/usr/include/stdio.h",),
    "libseccomp-dev": ("/usr/include/seccomp.h",),
    "make": ("make",),
    "mmdebstrap": ("mmdebstrap",),
    "openssl": ("openssl",),
    "xz-utils": ("xz",),
}
"""Debian packages, with programs and files that show their presence."""
PLACES: Final = Layout(
    state=content_cache.ROOT / "nodes-cluster",
    run=Path("/run/koord-suite-nodes"),
    addresses=ControlPlaneAddresses(
        apiserver_host=network.HOST,
        apiserver_port=6444,
        etcd_client_port=2389,
        etcd_peer_port=2390,
        controller_manager_port=10267,
        scheduler_port=10269,
        services=network.SERVICES,
        apiserver_service=network.APISERVER_SERVICE,
    ),
)
"""Folders and addresses. All ports are others than those of a local cluster."""
ON_THE_HOST: Final = ("dnsmasq", *control_plane.READY_CHECKS)
ON_THE_NODE: Final = ("containerd", "kube-proxy", "kubelet")
BOOT_SECONDS: Final = 120.0
READY_SECONDS: Final = 180.0
GRACE_SECONDS: Final = 2.0  # nothing is to be saved


class Nodes:
    """Provider whose nodes are processes with a kernel of their own."""

    def __init__(self, places: Layout = PLACES) -> None:
        self.places = places

    def up(self, count: int | None = None) -> Cluster:
        """Build what is missing, then start the control plane and the nodes; without `count` as many as there are."""
        local.require_root_on_linux()
        places = self.places
        with local.alone(places):
            count = self._agreed(count)
            if not self.exists():
                ports.require_free(places.addresses.ports())
            debian_packages.ensure(PACKAGES)
            parts, binaries = self._parts(self._archives()), go_binaries.everything()
            self._record(count)
            if not any(self._process(machine) for machine in self._machines()):
                network.remove()
                network.make()
            control_plane.make_identities(places)
            control_plane.start(places, binaries)
            places.service_names.mkdir(exist_ok=True)
            node.start_one(node.name_server(places), places)
            _at_once(lambda machine: self._boot(machine, *parts), self._machines())
            cluster = self.cluster()
            self._wait_until_ready(cluster)
        return cluster

    def down(self) -> list[str]:
        """End every process and remove the network."""
        local.require_root_on_linux()
        places = self.places
        if not self.exists():
            shutil.rmtree(places.state, ignore_errors=True)
            progress.report("no cluster of nodes: nothing to end")
            return []
        with local.alone(places):
            marked = processes.of_this_cluster(places.processes)
            unmarked = [child for process in marked for child in _children(process)]  # those that a kernel starts
            alive = processes.end([*marked, *unmarked], grace_seconds=GRACE_SECONDS)
            network.remove()
            remaining = [f"process: {process.pid}" for process in alive]
            remaining += ["network of the nodes"] if network.exists() else []
            shutil.rmtree(places.run, ignore_errors=True)
            shutil.rmtree(places.state)
        return remaining

    def exists(self) -> bool:
        """Return whether an `up` has started a cluster that no `down` has ended."""
        return self.places.kubernetes_version.exists()

    def status(self) -> Mapping[str, str]:
        """Return the state of each component and of each node."""
        states = local.component_states(ON_THE_HOST, self.places)
        ready = self._ready() if states["kube-apiserver"] == "ok" else set()
        for machine in self._machines():
            state = "ok" if machine.name in ready else "running, but not Ready"
            states[machine.name] = state if self._process(machine) else "not running"
        return states

    def cluster(self) -> Cluster:
        """Return access by the administrator's kubeconfig."""
        return access.reach("nodes", self.places.kubeconfig, self.places.audit_log, self.places.service_names)

    def load(self, archives: Sequence[Archive]) -> None:
        """Put images on the nodes, under their reference and under the tag `dev`.

        A node with a container imports them itself; another one restarts with a disk that has them, which is faster.
        """
        there = self._archives()
        new = [archive for archive in archives if archive not in there]
        if not new:
            return
        machines = self._machines()
        empty = [machine for machine in machines if not machine.containers()]
        others = [machine for machine in machines if machine not in empty]
        if empty:
            parts = self._parts([*there, *new])
            _at_once(lambda machine: self._restart(machine, *parts), empty)
        if others:
            with progress.step(f"importing {', '.join(archive.reference for archive in new)}"):
                _at_once(lambda machine: machine.load(new), others)
        self._wait_until_ready(self.cluster())
        listed = [(archive.name, archive.reference, str(archive.file)) for archive in [*there, *new]]
        self._archives_file.write_text(json.dumps(listed, indent=1))

    def host_address(self) -> str:
        """Return the address of this machine in the network of the nodes."""
        return network.HOST

    def shell(self, name: str, script: str) -> str:
        """Run a script on a node and return what it prints. Raises ClusterProblem."""
        return self._machine(name).run(script)

    def kill(self, name: str) -> None:
        """End a node as a power cut does. `up` starts it again, with empty disks."""
        if process := self._process(self._machine(name)):
            processes.end([process, *_children(process)], grace_seconds=0)

    def replace(self, name: str, kubernetes: str = "") -> None:
        """Replace a node by a new one of its name, whose kubelet may be of another version of Kubernetes."""
        self._restart(self._machine(name), *self._parts(self._archives(), kubernetes))
        self._wait_until_ready(self.cluster())

    def cut_link(self, name: str) -> None:
        """Cut the link of a node, which its processes do not notice."""
        network.cut(name)

    def restore_link(self, name: str) -> None:
        """Restore a link that was cut."""
        network.connect(self._machine(name).number, name)

    def stop(self, component: str) -> None:
        """Stop a component; one that every node has, on the first node only."""
        self._require_known(component)
        if component in ON_THE_NODE:
            self._machines()[0].run(f"systemctl stop {component}")
        else:
            processes.stop(component, self.places.processes)
        progress.report(f"{component} stopped")

    def start(self, component: str) -> None:
        """Start a component and wait until it is ready."""
        self._require_known(component)
        if component in ON_THE_NODE:
            self._machines()[0].run(f"systemctl start {component}")
            self._wait_until_ready(self.cluster())
            return
        binaries, places = go_binaries.everything(), self.places
        programs = [*control_plane.programs(places, binaries), node.name_server(places)]
        (program,) = [program for program in programs if program.name == component]
        starter = control_plane.start_one if component in control_plane.READY_CHECKS else node.start_one
        starter(program, places)

    def _require_known(self, component: str) -> None:
        if component not in (known := (*ON_THE_HOST, *ON_THE_NODE)):
            raise ClusterProblem(f"{component}: no such component; there are {', '.join(known)}")

    def _machine(self, name: str) -> Machine:
        for machine in self._machines():
            if machine.name == name:
                return machine
        names = ", ".join(machine.name for machine in self._machines())
        raise ClusterProblem(f"{name}: no such node; there are {names or 'none'}")

    def _machines(self) -> list[Machine]:
        return [Machine(self.places, number) for number in range(1, self._count() + 1)]

    def _count(self) -> int:
        file = self._count_file
        return int(file.read_text()) if file.exists() else 0

    @property
    def _count_file(self) -> Path:
        return self.places.state / "node-count"

    def _agreed(self, count: int | None) -> int:
        """Return the number of nodes. Raises ClusterProblem where it or the version is not that of what is up."""
        there = self._count() if self.exists() else 0
        wanted = count or there or USUAL_COUNT
        if not max(1, there) <= wanted <= network.MOST_NODES:
            raise ClusterProblem(f"--nodes {wanted}: want {max(1, there)} to {network.MOST_NODES}; {there} are up")
        if there and (runs := self.places.kubernetes_version.read_text()) != (version := go_binaries.version()):
            raise ClusterProblem(
                f"nodes of Kubernetes {runs} are up, and {version} is wanted; end them first: "
                f"python -m tools.localcluster down"
            )
        return wanted

    def _record(self, count: int) -> None:
        """Write down what `down` has to end, before any of it starts."""
        places = self.places
        if not self.exists():
            self._end_killed_cluster()
            network.require_free()
        places.state.mkdir(parents=True, exist_ok=True)
        places.run.mkdir(parents=True, exist_ok=True)
        places.state_record.write_text(f"{places.state}\n")
        self._count_file.write_text(f"{count}\n")
        places.kubernetes_version.write_text(go_binaries.version())

    def _end_killed_cluster(self) -> None:
        """End what is left of a cluster whose record is gone, or of another checkout. Raises ClusterProblem."""
        record = self.places.state_record
        killed = (
            Nodes(dataclasses.replace(self.places, state=Path(record.read_text().strip()))) if record.exists() else self
        )
        if killed is not self and any(map(killed._process, killed._machines())):
            raise ClusterProblem(
                f"the nodes of another checkout are up ({killed.places.state}); end them there: "
                "python -m tools.localcluster down"
            )
        if killed.exists():
            killed.down()
        network.remove()

    def _process(self, machine: Machine) -> psutil.Process | None:
        return processes.find(machine.name, self.places.processes)

    def _parts(self, archives: Sequence[Archive], kubernetes: str = "") -> tuple[Path, Path, Path]:
        """Return kernel and disks of the nodes, built where they are missing: the kernel beside the programs in Go."""
        with ThreadPoolExecutor(1) as beside:
            linux = beside.submit(kernel.linux)
            disks = disk.root(go_binaries.everything(kubernetes)), images.store(archives)
            return linux.result(), *disks

    def _boot(self, machine: Machine, linux: Path, *disks: Path) -> None:
        """Start a node unless it runs; one that has ended starts with new disks."""
        machine.describe(self._count())
        network.connect(machine.number, machine.name)
        if self._process(machine) is None:
            machine.discard_disks()
            shutil.rmtree(self.places.run / machine.name, ignore_errors=True)
            processes.start(machine.program(linux, *disks), self.places.processes)
            health.wait(f"{machine.name} booted", machine.answers, BOOT_SECONDS, machine.name, self.places.processes)
        else:
            machine.run("ip -batch /etc/node/routes")

    def _restart(self, machine: Machine, *parts: Path) -> None:
        """End a node and start it with new disks. It registers as a new node, not Ready at first."""
        self.kill(machine.name)
        self.cluster().run("delete", "node", machine.name, "--ignore-not-found")
        self._boot(machine, *parts)

    def _archives(self) -> list[Archive]:
        """Return the images that the nodes have; at first the one of every pod."""
        if not self._archives_file.exists():
            return [pause_image.archive()]
        return [
            Archive(name, reference, Path(file))
            for name, reference, file in json.loads(self._archives_file.read_text())
        ]

    @property
    def _archives_file(self) -> Path:
        return self.places.state / "images.json"

    def _ready(self) -> set[str]:
        get = [go_binaries.client("kubectl"), f"--kubeconfig={self.places.kubeconfig}", "get", "nodes", "--output=json"]
        try:
            listed = json.loads(commands.run(get))["items"]
        except ClusterProblem:
            return set()
        return {
            one["metadata"]["name"]
            for one in listed
            if any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"].get("conditions", ()))
        }

    def _wait_until_ready(self, cluster: Cluster) -> None:
        wanted = {machine.name for machine in self._machines()}

        def give_up() -> None:
            late = min(wanted - self._ready())
            log = self.shell(late, "journalctl --no-pager --quiet --unit=kubelet --lines=30")
            raise ClusterProblem(
                f"node {late} is not Ready after {READY_SECONDS:.0f} s: {commands.last_errors(log)}; "
                f"all of it: python -m tools.localcluster sh {late} journalctl"
            )

        def are_ready() -> bool:
            if not wanted <= self._ready():
                return False
            account = [cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "get", "serviceaccount", "default"]
            return commands.succeeds(account)

        what = f"{len(wanted)} nodes Ready"
        progress.wait_until(what, are_ready, READY_SECONDS, otherwise=give_up, poll=0.5)


def _at_once(act: Callable[[Machine], object], machines: Sequence[Machine]) -> None:
    with ThreadPoolExecutor(len(machines) or 1) as pool:
        list(pool.map(act, machines))


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(process.children(recursive=True))
    return []

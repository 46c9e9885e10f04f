"""One node: the folder that describes it, the command that starts it, and a shell in it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tools.localcluster import certificates, kubeconfigs, node
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.host.processes import Program
from tools.localcluster.image_archives import Archive
from tools.localcluster.layout import Layout
from tools.localcluster.nodes import images, network

CPUS: Final = 2
MEMORY: Final = "4096M"  # of /dev/shm, as the node touches it
SHELL_PORT: Final = 7777
_ON_THE_NODE: Final = Path("/etc/node")
_CONTAINERD: Final = Path("/run/containerd/containerd.sock")
_ENDED: Final = "the script ended with"
_DISKS: Final = ("disk", "images")


class Machine(NamedTuple):
    """A node by its number, which begins with 1."""

    places: Layout
    number: int

    @property
    def name(self) -> str:
        """Return the name of the node, of its process and of its link."""
        return f"n{self.number}"

    @property
    def folder(self) -> Path:
        """Return the folder with what the node writes."""
        return self.places.state / "nodes" / self.name

    @property
    def address(self) -> str:
        """Return the address of the node."""
        return network.address(self.number)

    def describe(self, count: int) -> None:
        """Write the files that the node reads at its start: identity, addresses, routes to the others of `count`."""
        files, keys = self.folder / "files", self.places.certificates
        files.mkdir(parents=True, exist_ok=True)
        if not (keys / f"{self.name}.crt").exists():
            certificates.sign(keys, self.name, user=f"system:node:{self.name}", group="system:nodes")
        for name, identity in (("kubelet", self.name), ("kube-proxy", "kube-proxy")):
            kubeconfigs.write(
                files / f"{name}.kubeconfig",
                server=self.places.addresses.apiserver,
                certificates_folder=keys,
                name=identity,
            )
        (files / "ca.crt").write_bytes((keys / "ca.crt").read_bytes())
        variables = {
            "NAME": self.name, "ADDRESS": self.address, "HOST": network.HOST, "PODS": network.PODS,
            "SHELL_PORT": SHELL_PORT,
        }  # fmt: skip
        (files / "environment").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        (files / "routes").write_text("\n".join(network.routes(self.number, count)) + "\n")
        (files / "kubelet.json").write_text(json.dumps(self._kubelet_configuration(), indent=2))
        (files / "cni.conflist").write_text(json.dumps(self._pod_network(), indent=2))

    def _kubelet_configuration(self) -> dict[str, object]:
        settings = node.kubelet_settings(network.HOST, _ON_THE_NODE / "ca.crt", _CONTAINERD)
        return {**settings, "cgroupDriver": "systemd", "staticPodPath": "/etc/kubernetes/manifests"}

    def _pod_network(self) -> dict[str, object]:
        """Return the CNI configuration. Nothing is masqueraded: every node and this machine have routes to all pods."""
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": network.pods(self.number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": ipam}
        ports = {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}}
        return {"cniVersion": "1.0.0", "name": "koord-suite", "plugins": [bridge, ports]}

    def discard_disks(self) -> None:
        """Remove what the node has written, before it starts again."""
        for name in _DISKS:
            (self.folder / name).unlink(missing_ok=True)

    def program(self, kernel: Path, *disks: Path) -> Program:
        """Return the kernel with its command line. What the node writes to its disks is in files of its own."""
        own = [f"ubd{index}={self.folder / _DISKS[index]},{disk}" for index, disk in enumerate(disks)]
        argv = network.enter(
            str(kernel), f"mem={MEMORY}", f"ncpus={CPUS}", "seccomp=on",
            f"umid={self.name}", f"uml_dir={self.places.run}",
            *own, "root=/dev/ubda", "rootfstype=ext4", "rw", "con=null", "con0=null,fd:1",
            f"vec0:transport=raw,ifname={self.name},depth=64,mac=02:00:00:00:77:{self.number:02x}",
            "psi=1", "quiet", "systemd.show_status=false", f"systemd.hostname={self.name}",
            f"node.files={self.folder / 'files'}",
        )  # fmt: skip
        return Program(self.name, argv, {"TMPDIR": "/dev/shm"})

    def containers(self) -> list[str]:
        """Return the ids of the containers of the node."""
        return self.run("systemctl start containerd && ctr -n k8s.io containers list -q").split()

    def load(self, archives: Sequence[Archive]) -> None:
        """Import images into containerd of the node, which takes minutes for a large one."""
        where = "/run/images"
        for archive in archives:
            reference = f"docker.io/{archive.reference}"
            self.run(f"""
set -e
mkdir -p {where}
mount -t hostfs -o {archive.file.parent.resolve()} none {where}
trap 'umount {where}' EXIT
ctr -n k8s.io images import {where}/{archive.file.name} >/dev/null
ctr -n k8s.io images tag --force {reference} {images.second_name(archive)} >/dev/null
""")

    def answers(self) -> bool:
        """Return whether the node has booted so far that its shell runs scripts."""
        try:
            return self.run("true", timeout_seconds=5) == ""
        except ClusterProblem:
            return False

    def run(self, script: str, timeout_seconds: float = 600) -> str:
        """Run a shell script on the node and return its output, errors among it. Raises ClusterProblem."""
        text = f'(\n{script}\n)\necho "{_ENDED} $?"\n'
        output, ended = b"", re.compile(rf"{_ENDED} \d+\n\Z".encode())
        try:
            with socket.create_connection((self.address, SHELL_PORT), timeout=timeout_seconds) as shell:
                shell.sendall(text.encode())
                shell.shutdown(socket.SHUT_WR)
                # Not until the connection ends: a program that the script leaves behind may hold it open.
                while not ended.search(output) and (part := shell.recv(1 << 16)):
                    output += part
        except OSError as error:
            raise ClusterProblem(f"node {self.name}: no shell at {self.address}:{SHELL_PORT}: {error}") from error
        printed, _, code = output.decode(errors="replace").rstrip("\n").rpartition(f"{_ENDED} ")
        if code != "0":
            errors = commands.last_errors(printed)
            raise ClusterProblem(f"node {self.name}: `{commands.shorten(script)}` exit {code or '?'}: {errors}")
        return printed

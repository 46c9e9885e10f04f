"""A cluster in Docker by kind, the default wherever a Docker engine answers.

Honestly: it is exercised only where Docker is, and the project's own pipeline has none. It is kept as small as it is so
that it can be read instead. kind itself is taken from PATH, or built by Go from the version below.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.images import building
from tools.localcluster import access, content_cache, control_plane, progress
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

VERSION = "v0.30.0"  # its default node image is Kubernetes 1.34
NAME = "koord-suite"
NODE = f"{NAME}-control-plane"
STATE = content_cache.ROOT / "kind-cluster"


class Kind:
    """See the module."""

    def up(self) -> Cluster:
        """See Provider."""
        if not commands.succeeds(["docker", "info"]):
            raise ClusterProblem("no Docker engine answers `docker info`: start one, or use --provider local as root")
        if NAME not in commands.run([kind(), "get", "clusters"]).split():
            STATE.mkdir(parents=True, exist_ok=True)
            shutil.copy(control_plane.AUDIT_POLICY, STATE / "audit-policy.yaml")
            with progress.step("creating a kind cluster"):
                where = ["--name", NAME, "--kubeconfig", STATE / "kubeconfig", "--wait", "120s", "--config", "-"]
                commands.run([kind(), "create", "cluster", *where], stdin=json.dumps(configuration(STATE)))
        return self.cluster()

    def down(self) -> list[str]:
        """See Provider."""
        if not self.exists():
            return []
        commands.run([kind(), "delete", "cluster", "--name", NAME, "--kubeconfig", STATE / "kubeconfig"])
        shutil.rmtree(STATE, ignore_errors=True)
        return []

    def exists(self) -> bool:
        """See Provider."""
        return STATE.exists()

    def status(self) -> Mapping[str, str]:
        """See Provider."""
        running = commands.succeeds(["docker", "exec", NODE, "systemctl", "is-active", "kubelet"])
        return {NODE: "ok" if running else "not running"}

    def cluster(self) -> Cluster:
        """See Provider."""
        return access.reach("kind", STATE / "kubeconfig", STATE / "log" / "audit.log")

    def builder(self) -> building.Builder:
        """See Provider."""
        return building.Docker()

    def load(self, archives: Sequence[building.Archive]) -> None:
        """See Provider."""
        for archive in archives:
            with progress.step(f"loading {archive.reference}"):
                commands.run([kind(), "load", "image-archive", archive.file, "--name", NAME])

    def stop(self, component: str) -> None:
        """See Provider; here only the kubelet is a service of its own."""
        self._kubelet("stop", component)

    def start(self, component: str) -> None:
        """See Provider."""
        self._kubelet("start", component)

    def _kubelet(self, verb: str, component: str) -> None:
        if component != "kubelet":
            raise ClusterProblem(f"{component} runs as a pod in kind; only kubelet can be stopped and started")
        commands.run(["docker", "exec", NODE, "systemctl", verb, "kubelet"])


def kind() -> Path:
    """The kind program."""
    found = shutil.which("kind")
    return Path(found) if found else content_cache.folder("kind", VERSION, _build) / "kind"


def _build(folder: Path) -> None:
    with progress.step(f"building kind {VERSION}"):
        commands.run(["go", "install", f"sigs.k8s.io/kind@{VERSION}"], environment={"GOBIN": str(folder)})


def configuration(state: Path) -> dict[str, object]:
    """Kind's configuration: one node, and the same audit log as the local cluster has."""
    volumes = [
        {"name": "audit-policy", "hostPath": "/audit/audit-policy.yaml", "mountPath": "/audit/audit-policy.yaml",
         "readOnly": True, "pathType": "File"},
        {"name": "audit-log", "hostPath": "/audit/log", "mountPath": "/audit/log", "pathType": "DirectoryOrCreate"},
    ]  # fmt: skip
    patch = {
        "kind": "ClusterConfiguration",
        "apiServer": {
            "extraArgs": {"audit-policy-file": "/audit/audit-policy.yaml", "audit-log-path": "/audit/log/audit.log"},
            "extraVolumes": volumes,
        },
    }
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [
            {
                "role": "control-plane",
                "extraMounts": [{"hostPath": str(state), "containerPath": "/audit"}],
                "kubeadmConfigPatches": [json.dumps(patch)],
            }
        ],
    }

"""A cluster in Docker by kind, the default wherever a Docker engine runs.

The project's own pipeline has no Docker, so this provider is tested only where Docker is installed; it is kept small
for that reason. kind itself is taken from PATH, or built by Go in the version below.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.localcluster import access, content_cache, control_plane, progress
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.image_archives import Archive

VERSION = "v0.30.0"  # its default node image is Kubernetes 1.34
NAME = "koord-suite"
NODE = f"{NAME}-control-plane"
STATE = content_cache.ROOT / "kind-cluster"


class Kind:
    """Provider that runs the node as a Docker container."""

    def up(self) -> Cluster:
        """Create the kind cluster unless there is one."""
        if not commands.succeeds(["docker", "info"]):
            raise ClusterProblem("`docker info` fails: start a Docker engine, or use --provider local as root")
        if NAME not in commands.run([kind(), "get", "clusters"]).split():
            STATE.mkdir(parents=True, exist_ok=True)
            shutil.copy(control_plane.AUDIT_POLICY, STATE / "audit-policy.yaml")
            with progress.step("creating a kind cluster"):
                where = ["--name", NAME, "--kubeconfig", STATE / "kubeconfig", "--wait", "120s", "--config", "-"]
                commands.run([kind(), "create", "cluster", *where], stdin=json.dumps(configuration(STATE)))
        return self.cluster()

    def down(self) -> list[str]:
        """Delete the kind cluster."""
        if not self.exists():
            return []
        commands.run([kind(), "delete", "cluster", "--name", NAME, "--kubeconfig", STATE / "kubeconfig"])
        shutil.rmtree(STATE, ignore_errors=True)
        return []

    def exists(self) -> bool:
        """Return whether `up` has created a cluster."""
        return STATE.exists()

    def status(self) -> Mapping[str, str]:
        """Return whether the node's kubelet is active."""
        running = commands.succeeds(["docker", "exec", NODE, "systemctl", "is-active", "kubelet"])
        return {NODE: "ok" if running else "not running"}

    def cluster(self) -> Cluster:
        """Return access by kind's kubeconfig."""
        return access.reach("kind", STATE / "kubeconfig", STATE / "log" / "audit.log")

    def load(self, archives: Sequence[Archive]) -> None:
        """Load each archive into the node."""
        for archive in archives:
            with progress.step(f"loading {archive.reference}"):
                commands.run([kind(), "load", "image-archive", archive.file, "--name", NAME])

    def stop(self, component: str) -> None:
        """Stop the kubelet, the only component that is a service of the node."""
        self._kubelet("stop", component)

    def start(self, component: str) -> None:
        """Start the kubelet."""
        self._kubelet("start", component)

    def _kubelet(self, verb: str, component: str) -> None:
        if component != "kubelet":
            raise ClusterProblem(f"{component} runs as a pod in kind; only kubelet can be stopped and started")
        commands.run(["docker", "exec", NODE, "systemctl", verb, "kubelet"])


def kind() -> Path:
    """Return the path of the kind program."""
    found = shutil.which("kind")
    return Path(found) if found else content_cache.folder("kind", VERSION, _build) / "kind"


def _build(folder: Path) -> None:
    with progress.step(f"building kind {VERSION}"):
        commands.run(["go", "install", f"sigs.k8s.io/kind@{VERSION}"], environment={"GOBIN": str(folder)})


def configuration(state: Path) -> dict[str, object]:
    """Return kind's configuration: one node, and the same audit log as the local cluster has."""
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

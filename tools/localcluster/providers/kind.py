"""A cluster in Docker by kind, the default wherever a Docker engine runs.

kind itself is taken from PATH, or built by Go in the version below. `tools.kind_offline` runs a Docker engine and makes
the image of a node where there is no registry.
"""

from __future__ import annotations

import json
import os
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
NODE_IMAGE_VARIABLE = "KIND_NODE_IMAGE"
"""Environment variable: the image of the node, where it is not the default one of this version of kind."""
NETWORK = "kind"
"""Docker network that kind makes for its clusters."""
READY_SECONDS = 120.0


class Kind:
    """Provider that runs the node as a Docker container."""

    def up(self) -> Cluster:
        """Create the kind cluster unless there is one, of this checkout or of another."""
        if not commands.succeeds(["docker", "info"]):
            raise ClusterProblem("`docker info` fails: start a Docker engine, or use --provider local as root")
        STATE.mkdir(parents=True, exist_ok=True)
        if self.exists():
            self._kind("export", "kubeconfig")
        else:
            shutil.copy(control_plane.AUDIT_POLICY, STATE / "audit-policy.yaml")
            image = os.environ.get(NODE_IMAGE_VARIABLE)
            more = ["--image", image] if image else []
            with progress.step("creating a kind cluster"):
                text = json.dumps(configuration(STATE))
                self._kind("create", "cluster", "--wait", "180s", "--config", "-", *more, stdin=text)
            commands.run(["docker", "exec", NODE, "chmod", "-R", "a+rX", "/audit"])  # for users who are not root
        return self.cluster()

    def down(self) -> list[str]:
        """Delete the kind cluster, and its network when no other cluster uses it."""
        if not self.exists():
            return []
        commands.succeeds(["docker", "exec", NODE, "rm", "-rf", "/audit/log"])  # root's, also where the user is not
        self._kind("delete", "cluster")
        commands.succeeds(["docker", "network", "rm", NETWORK])
        shutil.rmtree(STATE, ignore_errors=True)
        return [f"folder: {STATE}"] if STATE.exists() else []

    def exists(self) -> bool:
        """Return whether there is a cluster of this name."""
        return commands.succeeds(["docker", "info"]) and NAME in commands.run([kind(), "get", "clusters"]).split()

    def status(self) -> Mapping[str, str]:
        """Return whether the node's kubelet is active."""
        return {NODE: "ok" if self._is_kubelet_active() else "not running"}

    def cluster(self) -> Cluster:
        """Return access by kind's kubeconfig."""
        return access.reach("kind", STATE / "kubeconfig", STATE / "log" / "audit.log")

    def load(self, archives: Sequence[Archive]) -> None:
        """Load each archive that the node does not have."""
        had = commands.run(["docker", "exec", NODE, "ctr", "--namespace=k8s.io", "images", "list", "--quiet"]).split()
        for archive in archives:
            if f"docker.io/{archive.reference}" not in had:
                with progress.step(f"loading {archive.reference}"):
                    commands.run([kind(), "load", "image-archive", archive.file, "--name", NAME])

    def host_address(self) -> str:
        """Return the IPv4 gateway of the network of the node, which is an address of the engine's machine."""
        (found,) = json.loads(commands.run(["docker", "network", "inspect", NETWORK]))
        for each in found["IPAM"]["Config"] or ():
            if "." in (gateway := str(each.get("Gateway", ""))):
                return gateway
        raise ClusterProblem(
            f"docker network {NETWORK} has no IPv4 gateway; want one, at which pods reach this machine"
        )

    def shell(self, name: str, script: str) -> str:
        """Run a script in the container that is the node."""
        return commands.run(["docker", "exec", name, "sh", "-c", script])

    def stop(self, component: str) -> None:
        """Stop the kubelet, the only component that is a service of the node."""
        self._kubelet("stop", component)

    def start(self, component: str) -> None:
        """Start the kubelet and wait until the node is Ready."""
        self._kubelet("start", component)
        ready = f"--timeout={READY_SECONDS:.0f}s"
        self.cluster().run("wait", "--for=condition=Ready", f"node/{NODE}", ready, timeout_seconds=READY_SECONDS + 20)

    def _is_kubelet_active(self) -> bool:
        return commands.succeeds(["docker", "exec", NODE, "systemctl", "is-active", "kubelet"])

    def _kubelet(self, verb: str, component: str) -> None:
        if component != "kubelet":
            raise ClusterProblem(f"{component} runs as a pod in kind; only kubelet can be stopped and started")
        commands.run(["docker", "exec", NODE, "systemctl", verb, "kubelet"])

    def _kind(self, *words: str, stdin: str | None = None) -> None:
        where = ["--name", NAME, "--kubeconfig", str(STATE / "kubeconfig")]
        commands.run([kind(), *words, *where], stdin=stdin)


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

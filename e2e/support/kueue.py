"""Kueue as its chart installs it, in an image that holds the program built from its Go module."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from e2e.support import waiting
from tools.localcluster import content_cache, image_archives, running
from tools.localcluster.access import Cluster
from tools.localcluster.image_archives import Archive, ProgramImage
from tools.peers import programs

NAMESPACE = "kueue-system"


def _image() -> Archive:
    program = programs.program("kueue")
    key = program.parent.name
    reference = f"koord-suite/kueue:dev-{key[:12]}"

    def build(folder: Path) -> None:
        image_archives.write(folder / "image.tar", [ProgramImage(f"docker.io/{reference}", [program], user="65532")])

    return Archive("kueue", reference, content_cache.folder("images/kueue", key, build) / "image.tar")


def _documents(cluster: Cluster, image: str, namespace: str) -> str:
    """Return the chart's objects. Kueue concerns Jobs of one namespace only, so that no other case meets it."""
    repository, _, tag = image.rpartition(":")
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "managedJobsNamespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "integrations": {"frameworks": ["batch/job"]},
    }
    manager = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
    }
    values = {
        "controllerManager": {"manager": manager},
        "managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump(configuration)},
    }
    chart = programs.source(programs.KUEUE) / "charts" / "kueue"
    words = ("template", "kueue", str(chart), "--namespace", NAMESPACE, "--values=-")
    return cluster.run("helm", *words, stdin=yaml.safe_dump(values)).replace("- /manager\n", "- kueue\n")


@contextlib.contextmanager
def installed(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Install it for the Jobs of a namespace; remove it with its CRDs at the end."""
    image = _image()
    running.provider().load([image])
    documents = _documents(cluster, image.reference, namespace)
    cluster.run("create", "namespace", NAMESPACE)
    try:
        cluster.run("apply", "--server-side", "--filename=-", stdin=documents)
        where = ("deployment/kueue-controller-manager", "--namespace", NAMESPACE)
        cluster.run("rollout", "status", *where, "--timeout=240s", timeout_seconds=250)
        yield
    finally:
        cluster.run("delete", "--ignore-not-found", "--filename=-", stdin=documents)
        cluster.run("delete", "namespace", NAMESPACE)
        waiting.until("no CRD of Kueue", lambda: "kueue" not in cluster.run("get", "crds", "--output=name"))

"""Disk with the images of the nodes, as containerd keeps them.

They are imported on this machine: a node takes minutes for each image, because its system calls are slow.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.localcluster import content_cache, node, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.image_archives import Archive
from tools.localcluster.nodes import disk

_CONFIGURATION: Final = """version = 3
root = "{root}"
state = "{run}/state"
disabled_plugins = [
  "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri",
  "io.containerd.nri.v1.nri",
]
[grpc]
  address = "{run}/socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "{run}/opt"
"""
READY_SECONDS: Final = 30.0


def second_name(archive: Archive) -> str:
    """Return the reference under which a node finds an image of any version."""
    return node.PAUSE_IMAGE if archive.name == "pause" else f"docker.io/{archive.reference.rpartition(':')[0]}:dev"


def store(archives: Sequence[Archive]) -> Path:
    """Return the disk with these images, made on first use. Raises ClusterProblem."""
    runtime = disk.runtime()
    names = " ".join(sorted(archive.reference for archive in archives))
    key = content_cache.digest(names, runtime.name, _CONFIGURATION, disk.SIZE)
    return content_cache.folder("node-images", key, lambda folder: _build(folder, archives, runtime)) / "images"


def _build(folder: Path, archives: Sequence[Archive], runtime: Path) -> None:
    root = folder / "containerd"
    with tempfile.TemporaryDirectory() as run, progress.step("making the disk with the images of a node"):
        configuration = folder / "containerd.toml"
        configuration.write_text(_CONFIGURATION.format(root=root, run=run))
        with (folder / "log").open("w") as log:
            words = [str(runtime / "containerd"), "--config", str(configuration)]
            daemon = subprocess.Popen(words, stdout=log, stderr=log)
        ctr = [runtime / "ctr", "--address", f"{run}/socket", "--namespace", "k8s.io"]

        def answers() -> bool:
            return commands.succeeds([*ctr, "version"])

        def give_up() -> None:
            errors = commands.last_errors((folder / "log").read_text())
            raise ClusterProblem(f"containerd does not answer after {READY_SECONDS:.0f} s: {errors}")

        try:
            progress.wait_until("containerd ready", answers, READY_SECONDS, otherwise=give_up)
            for archive in archives:
                commands.run([*ctr, "images", "import", archive.file])
                reference = f"docker.io/{archive.reference}"
                commands.run([*ctr, "images", "tag", "--force", reference, second_name(archive)])
        finally:
            daemon.terminate()
            daemon.wait()
        disk.write_file_system(root, folder / "images")
        shutil.rmtree(root)

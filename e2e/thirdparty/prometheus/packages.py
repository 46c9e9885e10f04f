"""Programs of Debian packages, unpacked into a folder and not installed: no service, no user, no file elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.localcluster import content_cache, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

PROMETHEUS, NODE_EXPORTER = "prometheus", "prometheus-node-exporter"
"""Names of the packages, which are also the names of the programs."""


def program(name: str) -> Path:
    """Return the path of the program: the one on PATH, else that of the package. Raises ClusterProblem."""
    found = shutil.which(name)
    return Path(found) if found else _unpacked() / "usr" / "bin" / name


def _unpacked() -> Path:
    if shutil.which("apt-get") is None:
        raise ClusterProblem(f"{PROMETHEUS}, {NODE_EXPORTER}: not on PATH, and no apt-get to fetch them by: want both")
    return content_cache.folder("prometheus", content_cache.digest(_addresses()), _unpack)


def _addresses() -> str:
    """Return what apt would fetch: names, versions and hashes of the contents."""
    command = ["apt-get", "--print-uris", "download", PROMETHEUS, NODE_EXPORTER]
    try:
        return commands.run(command)
    except ClusterProblem:  # package lists may never have been fetched
        commands.download(["apt-get", "update"])
        return commands.run(command)


def _unpack(folder: Path) -> None:
    with progress.step(f"fetching {PROMETHEUS} and {NODE_EXPORTER}"):
        commands.download(["apt-get", "download", PROMETHEUS, NODE_EXPORTER], folder=folder)
        for package in sorted(folder.glob("*.deb")):
            commands.run(["dpkg-deb", "--extract", package, folder])
            package.unlink()

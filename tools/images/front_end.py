"""Fetch the front-end files of the console from npm's configured registry, by exact version and hash.

`console/front-end.lock.json` has the packages. npm only downloads: nothing of a package runs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tools.localcluster import content_cache, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, debian_packages

LOCK = content_cache.REPOSITORY / "console" / "front-end.lock.json"
PACKAGES = {"npm": ("npm",)}
"""Debian package with npm."""


def folder() -> Path:
    """Return a folder with the files that the console serves, and the lock file that they are from."""
    return content_cache.folder("front-end", content_cache.digest(LOCK), lambda target: _download(target, shipped=True))


def folder_of_tests() -> Path:
    """Return a folder with the files that only tests use."""
    return content_cache.folder(
        "front-end-of-tests", content_cache.digest(LOCK), lambda target: _download(target, shipped=False)
    )


def copy_into(target: Path) -> None:
    """Copy the files into `target`, for a wheel."""
    shutil.copytree(folder(), target, dirs_exist_ok=True)


def _download(target: Path, *, shipped: bool) -> None:
    debian_packages.ensure(PACKAGES)
    with progress.step("fetching the front-end files of the console"), tempfile.TemporaryDirectory() as scratch:
        for package in json.loads(LOCK.read_text())["packages"]:
            if package["shipped"] is shipped:
                _extract(package, _archive(package, Path(scratch)), target)
    shutil.copyfile(LOCK, target / LOCK.name)


def _archive(package: dict[str, Any], scratch: Path) -> Path:
    """Download a package and return its archive. Raises ClusterProblem where it is not the locked one."""
    name = f"{package['name']}@{package['version']}"
    answer = commands.download(["npm", "pack", "--json", "--ignore-scripts", name], folder=scratch)
    archive = scratch / Path(json.loads(answer)[0]["filename"]).name
    seen = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if seen != package["integrity"]:
        wanted = package["integrity"]
        raise ClusterProblem(f"{name}: seen {seen}, want {wanted} of {LOCK.name}; use another registry")
    return archive


def _extract(package: dict[str, Any], archive: Path, target: Path) -> None:
    with tarfile.open(archive) as packed:
        for inside, name in package["files"].items():
            content = packed.extractfile(f"package/{inside}")
            assert content is not None
            (target / name).write_bytes(content.read())

"""Make the archives of koordctl for a machine without pip, and the manifest by which krew installs them.

    python -m tools.release.koordctl_archives WHEEL FOLDER [--url URL]

An archive has the modules of koordctl and of its libraries, the compiled libraries once for each Python, and a program
that picks those of the Python that runs it.
"""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from tools.images.layouts import EPOCH
from tools.localcluster import content_cache, progress
from tools.localcluster.host import commands
from tools.localcluster.image_archives import sha256
from tools.release import koordctl_distribution
from tools.release.archives import tar
from tools.release.version import REPOSITORY, current

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    ("linux", "amd64"): ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64"),
    ("linux", "arm64"): ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64"),
    ("darwin", "amd64"): ("macosx_10_15_x86_64",),
    ("darwin", "arm64"): ("macosx_11_0_arm64",),
}
"""Platforms as krew has them, and tags of wheels that run there."""
URL = "https://RELEASES.EXAMPLE"
"""Placeholder of the address below which the archives are; a release gives its own."""
MANIFEST = "koord.yaml"
_CONSTRAINTS = REPOSITORY / "constraints.txt"
_START = Path(__file__).with_name("koordctl_start")


def build(version: str, wheel: Path, folder: Path, url: str = URL) -> list[Path]:
    """Make the archives of a wheel and their manifest; SOURCE_DATE_EPOCH is their time. Return the paths."""
    libraries = _libraries()
    time = int(os.environ.get(EPOCH, "0"))
    by_platform = {}
    for system, machine in PLATFORMS:
        archive = folder / f"koordctl-{version}-{system}-{machine}.tar.gz"
        content = dict(_content(wheel, libraries / "modules", libraries / f"{system}-{machine}"))
        tar(archive, content, time, programs=("koordctl",))  # regular files, for krew extracts no links
        by_platform[system, machine] = archive
    manifest = folder / MANIFEST
    manifest.write_text(
        yaml.safe_dump(_manifest(version, by_platform, url), sort_keys=False, width=120), encoding="utf-8"
    )
    return [*by_platform.values(), manifest]


def _libraries() -> Path:
    """Return a folder with the wheels that koordctl needs: `modules`, and the compiled of each platform and Python."""
    lines = [line for extra in ("dependencies", "console") for line in koordctl_distribution.requirements()[extra]]
    key = content_cache.digest(repr((lines, PLATFORMS, PYTHONS)), _CONSTRAINTS)

    def download(target: Path) -> None:
        modules = target / "modules"
        with progress.step("collecting wheels for koordctl"):
            _download(modules, PLATFORMS["linux", "amd64"], PYTHONS[0], "--constraint", _CONSTRAINTS, *lines)
        compiled = [wheel for wheel in modules.iterdir() if not wheel.stem.endswith("-any")]
        pinned = ["==".join(wheel.name.split("-")[:2]) for wheel in compiled]
        for wheel in compiled:
            wheel.unlink()
        for (system, machine), tags in PLATFORMS.items():
            with progress.step(f"collecting compiled wheels for koordctl on {system} {machine}"):
                for python in PYTHONS:
                    _download(target / f"{system}-{machine}" / f"python{python}", tags, python, "--no-deps", *pinned)

    return content_cache.folder("koordctl-wheels", key, download)


def _download(target: Path, tags: Sequence[str], python: str, *what: object) -> None:
    words = ["--quiet", "--disable-pip-version-check", "--only-binary=:all:", f"--python-version={python}"]
    platforms = [f"--platform={tag}" for tag in tags]
    commands.download([sys.executable, "-m", "pip", "download", *words, *platforms, "--dest", target, *what])


def _content(wheel: Path, modules: Path, compiled: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file of an archive."""
    yield "koordctl", _START.read_bytes()
    yield "LICENSE", (REPOSITORY / "LICENSE").read_bytes()
    for folder in (modules, *compiled.iterdir()):
        for library in folder.iterdir():
            yield from _unpacked(library, folder.name)
    yield from _unpacked(wheel, "modules")


def _unpacked(wheel: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if not name.endswith("/") and "tests" not in name.split("/"):  # as in the images
                yield f"{folder}/{name}", packed.read(name)


def _manifest(version: str, archives: dict[tuple[str, str], Path], url: str) -> dict[str, object]:
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "koord"},
        "spec": {
            "version": f"v{version}",
            "homepage": url.partition("/releases/")[0],
            "shortDescription": "Shows usage and Mid resources of nodes",
            "description": "Answers questions about usage, requests and Mid resources of nodes and pods, and\n"
            "estimates what Mid resources could give a cluster without koord-suite.\n",
            "caveats": f"Needs python3 of one of the versions {', '.join(PYTHONS)}.\n",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": system, "arch": machine}},
                    "uri": f"{url}/{archive.name}",
                    "sha256": sha256(archive),
                    "files": [{"from": "*", "to": "."}],
                    "bin": "koordctl",
                }
                for (system, machine), archive in archives.items()
            ],
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.release.koordctl_archives")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default=URL, help="address below which the archives are")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    release = current()
    for path in build(release, given.wheel, given.folder, given.url):
        print(path)

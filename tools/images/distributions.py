"""The Python distributions of each image: wheels for an architecture, unpacked without pip in the image."""

from __future__ import annotations

import functools
import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from tools.images import debian
from tools.images.file_trees import File, Tree
from tools.localcluster import content_cache, image_archives, progress
from tools.localcluster.host import commands

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBC_MINOR = 36  # of the suite; a wheel may be for any older one
FOLDER = f"venv/lib/python{debian.PYTHON_VERSION}/site-packages"
_UNUSED = re.compile(r".*(^|/)(tests|f2py|include|_examples)/|.*\.(pyi|pxd|pyx|a|c|h|hash)$|[^/]*\.data/")
"""Tests, and what compilers and type checkers read."""
EXTRAS_OF_COMPONENT = {
    "console": ("console",),
    "koordlet": ("koordlet", "influxdb"),  # the second is loaded only where the InfluxDB exporter is enabled
    "koordctl": ("koordlet", "cli"),  # the first for the prediction of the agent
    "manager": ("manager", "cli"),  # the second for koordctl
    "scheduler": ("scheduler",),
}
CONSTRAINTS = content_cache.REPOSITORY / "constraints.txt"


@dataclass(frozen=True)
class Distribution:
    """A distribution in its wheel."""

    file: Path
    name: str
    version: str

    def purl(self) -> str:
        """Return the package's URL, by which scanners know it."""
        return f"pkg:pypi/{re.sub('[-_.]+', '-', self.name).lower()}@{self.version}"

    def sha256(self) -> str:
        """Return the hash of the wheel."""
        return image_archives.sha256(self.file)

    @functools.cache  # noqa: B019 -- a command builds all images of a distribution, then ends
    def tree(self) -> Tree:
        """Return the files that images need."""
        with zipfile.ZipFile(self.file) as wheel:
            names = [name for name in wheel.namelist() if not name.endswith("/") and not _UNUSED.match(name)]
            return {f"{FOLDER}/{name}": File(wheel.read(name)) for name in names}


def requirements(pyproject: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the requirements of each component: the common ones plus its own extras."""
    project = pyproject["project"]
    assert isinstance(project, Mapping)
    optional = project["optional-dependencies"]
    return {
        component: [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
        for component, extras in EXTRAS_OF_COMPONENT.items()
    }


@functools.cache
def of_component(component: str, architecture: str) -> Sequence[Distribution]:
    """Return what a component of `EXTRAS_OF_COMPONENT` needs, as pip resolves it. Raises ClusterProblem."""
    folder = _folder(architecture)
    return [_read(folder / name) for name in json.loads((folder / f"{component}.json").read_text())]


def environment(component: str, architecture: str) -> Tree:
    """Return a virtual environment with the libraries of a component."""
    tree: dict[str, File] = {
        "venv/pyvenv.cfg": File(f"home = /usr/bin\nversion = {debian.PYTHON_VERSION}\n".encode()),
        **{f"venv/bin/{name}": File(link="/usr/bin/python3.11") for name in ("python", "python3")},
    }
    for distribution in of_component(component, architecture):
        tree |= distribution.tree()
    return tree


def _read(file: Path) -> Distribution:
    with zipfile.ZipFile(file) as wheel:
        (name,) = (name for name in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        fields = HeaderParser().parsestr(wheel.read(name).decode())
    return Distribution(file, fields["Name"], fields["Version"])


def _folder(architecture: str) -> Path:
    by_component = requirements(tomllib.loads((content_cache.REPOSITORY / "pyproject.toml").read_text()))
    pip, pinned = [sys.executable, "-m", "pip"], f"--constraint={CONSTRAINTS}"
    machine = MACHINES[architecture]
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC_MINOR, 4, -1)]
    options = [
        "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--implementation=cp",
        f"--python-version={debian.PYTHON_VERSION}",
        *(f"--platform={platform}" for platform in [*platforms, f"manylinux2014_{machine}"]),
    ]  # fmt: skip

    def fetch(folder: Path) -> None:
        with progress.step(f"collecting wheels for Python {debian.PYTHON_VERSION} on {architecture}"):
            together = sorted({line for lines in by_component.values() for line in lines})
            commands.download([*pip, "download", pinned, *options, f"--dest={folder}", *together])
            for component, lines in by_component.items():
                report = folder / "report"
                words = ["--dry-run", "--ignore-installed", "--no-index", f"--find-links={folder}", "--target=unused"]
                commands.run([*pip, "install", pinned, *words, *options, f"--report={report}", *lines])
                installed = json.loads(report.read_text())["install"]
                urls = sorted(str(part["download_info"]["url"]) for part in installed)
                (folder / f"{component}.json").write_text(json.dumps([url.rpartition("/")[2] for url in urls]))
            report.unlink()

    key = content_cache.digest(repr(by_component), repr(options), CONSTRAINTS)
    return content_cache.folder(f"wheels-{architecture}", key, fetch)

"""Collect the libraries of each component as wheels for the Python of the base image, pinned by constraints.txt."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.localcluster import content_cache, progress
from tools.localcluster.host import commands

EXTRAS_OF_COMPONENT = {
    "console": ("console",),
    "koordlet": ("koordlet", "influxdb"),  # the second is loaded only where the InfluxDB exporter is enabled
    "koordctl": ("koordlet", "cli"),  # the first for the prediction of the agent
    "manager": ("manager", "cli"),  # the second for koordctl
    "scheduler": ("scheduler",),
}
PIP = "pip==25.3"  # runs inside the build from its own wheel; any that knows --python will do
CONSTRAINTS = content_cache.REPOSITORY / "constraints.txt"


def requirements(pyproject: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the requirements of each component: the common ones plus its own extras."""
    project = pyproject["project"]
    assert isinstance(project, Mapping)
    optional = project["optional-dependencies"]
    return {
        component: [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
        for component, extras in EXTRAS_OF_COMPONENT.items()
    }


def folder(python_version: str) -> Path:
    """Return a folder with all wheels, pip's included, and one `<component>.txt` each that lists what to install."""
    wanted = requirements(tomllib.loads((content_cache.REPOSITORY / "pyproject.toml").read_text()))
    key = content_cache.digest(repr(wanted), python_version, PIP, CONSTRAINTS)
    return content_cache.folder("wheels", key, lambda target: _download(wanted, python_version, target))


def copy_into(target: Path, python_version: str) -> None:
    """Copy the wheels into `target`, for a `docker build` by hand."""
    for earlier in target.glob("*.whl"):  # an older or newer version would be installed instead
        earlier.unlink()
    shutil.copytree(folder(python_version), target, dirs_exist_ok=True)


def _download(wanted: Mapping[str, Sequence[str]], python_version: str, target: Path) -> None:
    pinned = ["--constraint", CONSTRAINTS] if CONSTRAINTS.exists() else []
    together = sorted({line for lines in wanted.values() for line in lines})
    with progress.step(f"collecting wheels for Python {python_version}"):
        commands.download(
            [
                sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                "--only-binary=:all:", f"--python-version={python_version}", "--dest", target, *pinned, PIP, *together,
            ]
        )  # fmt: skip
    for component, lines in wanted.items():
        (target / f"{component}.txt").write_text("\n".join(lines) + "\n")

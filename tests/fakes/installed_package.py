"""A Python package as an installer leaves it in a folder: its modules, and metadata with its entry points."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

GROUP = "koordlet.predictors"
EXAMPLE = Path(__file__).parents[2] / "examples/predictor"


def write(folder: Path, name: str, entry_points: Mapping[str, str], source: str = "", version: str = "1") -> None:
    """Install a package with one module of this source; entry points are name -> `module:object`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = "".join(f"{point} = {value}\n" for point, value in entry_points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")


def install_example(folder: Path) -> None:
    """Install the example predictor, as its pyproject.toml describes it; nothing is downloaded."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    modules = project["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    name = project["project"]["name"].replace("-", "_")
    write(folder, name, project["project"]["entry-points"][GROUP], version=project["project"]["version"])
    (folder / f"{name}.py").unlink()
    for module in modules:
        shutil.copy(EXAMPLE / module, folder / module)

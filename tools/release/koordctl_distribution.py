"""Build the distribution `koordctl`: the command line, the console, and what they import of the other packages.

    python -m tools.release.koordctl_distribution FOLDER

The packages are in one folder of the wheel, which the program adds to its path: a `manager` or `console` of a
shared environment may be of another project.
"""

from __future__ import annotations

import ast
import json
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.images import front_end
from tools.localcluster.host import commands
from tools.release.version import REPOSITORY, current

WHOLE = ("console", "koordctl")
"""Packages of which every file is in the wheel: the list of commands names its modules as text."""
FOLDER = "koordctl_packages"
PROGRAM = "koordctl_program.py"
_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "koordctl"
version = {version}
description = "Answers questions of the operator of a Kubernetes cluster about usage and Mid resources (koord-suite)"
readme = "README.md"
requires-python = {python}
license = {license}
license-files = ["LICENSE"]
classifiers = {classifiers}
dependencies = {dependencies}

[project.optional-dependencies]
predict = {predict}
console = {console}

[project.scripts]
koordctl = "koordctl_program:program"
kubectl-koord = "koordctl_program:program"
kubectl_complete-koord = "koordctl_program:kubectl"

[tool.hatch.build.targets.wheel]
only-include = [{folder}, {program}]
artifacts = ["*"]
"""
_README = """\
# koordctl

The command line of koord-suite, also as `kubectl koord`. `koordctl estimate` shows what Mid resources could give a
cluster in which nothing is installed.

`pip install koordctl` is without numpy; `koordctl[predict]` has it, for `estimate`, `backtest`, `simulate`,
`scheduler check` and `gain --prometheus`, and `koordctl[console]` has all that the pages of `koordctl console` need.
"""


def modules(repository: Path = REPOSITORY) -> dict[str, Path]:
    """Return the file of each module of WHOLE, and of each that one of them imports at any place, directly or not."""
    files = [file for package in WHOLE for file in (repository / package).rglob("*.py")]
    wanted = [".".join(file.relative_to(repository).with_suffix("").parts).removesuffix(".__init__") for file in files]
    files_of = dict[str, Path]()
    while wanted:
        name = wanted.pop()
        file = repository.joinpath(*name.split("."))
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        if name not in files_of and file.is_file():
            files_of[name] = file
            wanted += [name.rpartition(".")[0] or name, *imports(file.read_text(encoding="utf-8"))]
    return files_of


def imports(source: str) -> Iterator[str]:
    """Yield the names that the import statements of a source name: modules, and what may be one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, "no import of this repository is relative"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def requirements() -> dict[str, list[str]]:
    """Return the requirements of koordctl, and of its extras `predict` and `console`."""
    suite = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = suite["optional-dependencies"]
    common = [*suite["dependencies"], *extras["cli"]]
    return {"dependencies": common, "predict": extras["koordlet"], "console": extras["console"]}


def build(version: str, folder: Path) -> Path:
    """Build the wheel into a folder; SOURCE_DATE_EPOCH of the environment is its time. Return its path."""
    with tempfile.TemporaryDirectory() as scratch:
        stage, built = Path(scratch, "stage"), Path(scratch, "built")
        _stage(version, stage)
        words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir", "--wheel-dir", built, stage]
        pinned = {"PIP_CONSTRAINT": str(REPOSITORY / "constraints.txt")}
        commands.download([sys.executable, "-m", "pip", "wheel", *words], environment=pinned)
        (wheel,) = built.iterdir()
        return Path(shutil.copy(wheel, folder))


def _stage(version: str, stage: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "front-end")
    for package in WHOLE:
        shutil.copytree(REPOSITORY / package, stage / FOLDER / package, ignore=ignored)
    front_end.copy_into(stage / FOLDER / "console" / "front-end")
    for file in modules().values():
        target = stage / FOLDER / file.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    shutil.copyfile(Path(__file__).with_name("koordctl_program"), stage / PROGRAM)
    shutil.copyfile(REPOSITORY / "LICENSE", stage / "LICENSE")
    (stage / "README.md").write_text(_README, encoding="utf-8")
    suite = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    values = {
        "version": version,
        "python": suite["requires-python"],
        "license": suite["license"],
        "classifiers": [line for line in suite["classifiers"] if not line.startswith("Operating System")],
        "folder": FOLDER,
        "program": PROGRAM,
        **requirements(),
    }
    written = _PYPROJECT.format_map({name: json.dumps(value) for name, value in values.items()})
    (stage / "pyproject.toml").write_text(written, encoding="utf-8")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    print(build(current(), target))

"""Record which tests run which lines of the product, so that a mutant is first tried with the tests of its line."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import coverage

from tests.mutants.trials import Tests

INDEX: Final = "index.json"
"""Written last."""
_MOST: Final = 200
"""Tests of one line that are run, those of its own module and folder first."""


def record(root: Path, folder: Path, packages: Iterable[str]) -> None:
    """Run all tests but the cluster ones in the copy at `root`, and write their lines to `folder`.

    A test file with a failure, as on a busy machine, is left out: its tests must not kill a mutant.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = folder / "coverage.ini"
    names = "".join(f"\n    {package}" for package in packages)
    settings.write_text(
        f"[run]\ncore = ctrace\nrelative_files = true\ndata_file = {folder / 'data'}\nsource_pkgs = {names}\n",
        encoding="utf-8",
    )
    options = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report=", "--numprocesses=auto"]
    command = [sys.executable, "-m", "pytest", "tests", "-q", "-p", "no:cacheprovider", "-rfE", "--tb=no", *options]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    files = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
    index = {
        "failed": sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+?\.py)", output, re.MULTILINE))),
        "digests": {str(path.relative_to(root)): _digest(path) for path in files},
    }
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


class Lines:
    """What `record` wrote to `folder`."""

    def __init__(self, folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        self._digests: dict[str, str] = index["digests"]
        self._failed: list[str] = index["failed"]
        self._data = coverage.CoverageData(str(folder / "data"))
        self._data.read()

    def tests(self, root: Path, file: str, line: int) -> Tests | None:
        """Return tests that run a line, at most _MOST.

        Returns None where none is known: the line runs at import only, or the file has changed since.
        """
        if self._digests.get(file) != _digest(root / file):
            return None
        contexts = self._data.contexts_by_lineno(file)
        nearest = max((each for each in contexts if each <= line), default=0)
        names = {name.partition("|")[0] for name in contexts.get(nearest, ()) if name}
        files = {name.partition("::")[0] for name in names}
        usable = {each for each in files if each not in self._failed and (root / each).is_file()}
        folder = f"tests/{Path(file).parent}/"
        ranked = sorted(
            (name for name in names if name.partition("::")[0] in usable),
            key=lambda name: (f"/test_{Path(file).stem}.py::" not in name, not name.startswith(folder), name),
        )
        return Tests(tuple(ranked[:_MOST])) if ranked else None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

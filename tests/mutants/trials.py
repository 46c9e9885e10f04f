"""Try one mutant: run the tests of its folder, and where they pass, those of the whole part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

KILLED, SURVIVED = "killed", "survived"
SECONDS: Final = 900.0
"""Limit of one test run; a mutant that does not end is killed."""
_OF_TEXTS: Final = (
    *("tests/docs", "tests/tools", "tests/charts", "tests/crds", "tests/e2e", "tests/changes", "tests/reliability"),
)


def narrow(root: Path, file: str) -> list[str]:
    """Return the tests of a module's folder: the nearest folder below tests/ that exists."""
    folder = Path(file).parent
    while not (root / "tests" / folder).is_dir():
        folder = folder.parent
    name = f"test_{Path(file).stem}.py"
    own = root / "tests" / folder / name
    rest = str(Path("tests") / folder)
    return [str(Path("tests") / folder / name), rest] if own.is_file() else [rest]


def wide(root: Path, file: str) -> list[str]:
    """Return the tests of the whole part, of the parts above it, and the known answers."""
    part = Path(file).parts[0]
    every = part in ("api_types", "apiserver_client", "component_base", "fleet")
    folders = sorted(path for path in (root / "tests").iterdir() if path.is_dir() and any(path.glob("**/test_*.py")))
    names = [str(path.relative_to(root)) for path in folders if every or path.name in (part, "conformance", "model")]
    return [name for name in names if name not in _OF_TEXTS]


class Trials:
    """Trials in the copy at `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._passed_unchanged: set[tuple[str, ...]] = set()

    def outcome(self, file: str, source: str) -> str:
        """Write a mutant into the copy, run the tests, and restore the file.

        Returns KILLED or SURVIVED. Raises RuntimeError where tests fail without a change: they would kill every mutant.
        """
        for tests in (narrow(self._root, file), wide(self._root, file)):
            self._check_unchanged(tests)
            if self._kills(tests, file, source):
                return KILLED
        return SURVIVED

    def _check_unchanged(self, tests: list[str]) -> None:
        key = tuple(tests)
        if key not in self._passed_unchanged and _fails(self._root, tests):
            raise RuntimeError(f"pytest {' '.join(tests)} fails without a change; want tests that pass")
        self._passed_unchanged.add(key)

    def _kills(self, tests: list[str], file: str, source: str) -> bool:
        path = self._root / file
        original = path.read_text(encoding="utf-8")
        path.write_text(source, encoding="utf-8")
        try:
            return _fails(self._root, tests)
        finally:
            path.write_text(original, encoding="utf-8")


def _fails(root: Path, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *dict.fromkeys(tests)]
    environment = {**os.environ, "CI": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(command, cwd=root, capture_output=True, env=environment, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return True
    return ended.returncode != 0

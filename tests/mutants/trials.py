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


def outcome(root: Path, file: str, source: str) -> str:
    """Write a mutant into the copy at `root`, run the tests, and restore the file.

    Returns KILLED or SURVIVED.
    """
    path = root / file
    original = path.read_text(encoding="utf-8")
    path.write_text(source, encoding="utf-8")
    try:
        first = narrow(root, file)
        return KILLED if any(_fails(root, tests) for tests in (first, wide(root, file))) else SURVIVED
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

"""Try one mutant with a set of tests: those of its line, or of its folder."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

import pytest

KILLED, TIMEOUT, SURVIVED = "killed", "timeout", "survived"
SHARED: Final = ("api_types", "apiserver_client", "component_base", "fleet")
"""Packages that other parts import."""
PARTS: Final = ("console", "koordctl", "koordlet", "manager", "scheduler_plugin")
_UNCHANGED_SECONDS: Final = 1800.0
"""Limit of a run without a change."""
_TIMES, _MORE_SECONDS = 3.0, 60.0
"""Limit of a run with a mutant: so many times the duration without a change, and so many seconds more."""
_OF_LINE_SECONDS: Final = 180.0


class Tests(NamedTuple):
    """What one run of pytest gets."""

    paths: tuple[str, ...]
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return shlex.join(["pytest", *self.options, *self.paths])


def narrow(root: Path, file: str) -> Tests:
    """Return the tests of a module's folder, its own first: the nearest folder below tests/ that exists."""
    folder = Path(file).parent
    while not (root / "tests" / folder).is_dir():
        folder = folder.parent
    rest = Path("tests") / folder
    own = rest / f"test_{Path(file).stem}.py"
    return Tests((str(own), str(rest)) if (root / own).is_file() else (str(rest),))


class Trials:
    """Trials in the copy at `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seconds_unchanged: dict[Tests, float] = {}

    def outcome(self, tests: Tests, file: str, source: str) -> str:
        """Write a mutant into the copy, run tests, and restore the file.

        Returns KILLED, TIMEOUT or SURVIVED. Raises RuntimeError where the tests fail without a change: they would kill
        every mutant.
        """
        code = self._exit_code(tests, file, source, _TIMES * self._unchanged(tests) + _MORE_SECONDS)
        return {0: SURVIVED, None: TIMEOUT}.get(code, KILLED)

    def outcome_of_line(self, tests: Tests, file: str, source: str) -> str:
        """Do the same with tests that are known to pass without a change, which may take long or have new names."""
        code = self._exit_code(tests, file, source, _OF_LINE_SECONDS)
        if code is None:
            return TIMEOUT if exit_code(self._root, tests, _OF_LINE_SECONDS) is not None else SURVIVED
        if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return KILLED if code else SURVIVED
        collected = tests._replace(options=(*tests.options, "--collect-only"))
        return KILLED if exit_code(self._root, collected, _OF_LINE_SECONDS) == 0 else SURVIVED

    def _exit_code(self, tests: Tests, file: str, source: str, limit: float) -> int | None:
        path = self._root / file
        original = path.read_text(encoding="utf-8")
        path.write_text(source, encoding="utf-8")
        try:
            return exit_code(self._root, tests, limit)
        finally:
            path.write_text(original, encoding="utf-8")

    def _unchanged(self, tests: Tests) -> float:
        """Return the seconds of the tests without a change."""
        if tests not in self._seconds_unchanged:
            began = time.monotonic()
            if (code := exit_code(self._root, tests, _UNCHANGED_SECONDS)) != 0:
                ended = "fails" if code is not None else f"does not end in {_UNCHANGED_SECONDS:.0f} s"
                raise RuntimeError(f"{tests} {ended} without a change; want tests that pass")
            self._seconds_unchanged[tests] = time.monotonic() - began
        return self._seconds_unchanged[tests]


def exit_code(root: Path, tests: Tests, limit: float) -> int | None:
    """Run tests in the copy; return the exit code of pytest, or None where it has not ended in `limit` seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests.options, *tests.paths]
    environment = {**os.environ, "CI": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=root, env=environment, stdout=nothing, stderr=nothing, process_group=0) as run:
        try:
            return run.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)  # the workers, and what the tests started

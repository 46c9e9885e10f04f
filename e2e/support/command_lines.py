"""Run the suite's programs as from a terminal of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
_END_SECONDS = 15


class Output(NamedTuple):
    """Exit code and complete output of a program."""

    code: int
    text: str

    def line_with(self, *words: str) -> str:
        """Return the first line with all the words; there must be one, and no traceback."""
        assert "Traceback" not in self.text, self.text
        for line in self.text.splitlines():
            if all(word in line for word in words):
                return line
        raise AssertionError(f"no line names {words}:\n{self.text}")


def run(
    *words: str,
    until: str | None = None,
    within_seconds: float = 60,
    folder: Path = REPOSITORY,
    environment: Mapping[str, str] | None = None,
    wrapper: tuple[str, ...] = (),
) -> Output:
    """Run `python -m words...` to its end, or end it once it has printed `until`.

    A program that has not printed `until` within the time is ended too; the caller checks the output.
    """
    argv = [*wrapper, sys.executable, "-m", *words]
    settings = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
    with subprocess.Popen(
        argv, cwd=folder, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        try:
            if until is None:
                text, _ = program.communicate(timeout=within_seconds)
            else:
                text = _listen(program, until, within_seconds)
        finally:
            if program.poll() is None:
                program.kill()
    return Output(program.returncode, text)


def _listen(program: subprocess.Popen[str], until: str, within_seconds: float) -> str:
    lines: list[str] = []
    heard = threading.Event()

    def read() -> None:
        assert program.stdout is not None
        for line in program.stdout:
            lines.append(line)
            if until in line:
                heard.set()
        heard.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    heard.wait(within_seconds)
    program.terminate()
    program.wait(_END_SECONDS)
    reader.join()
    return "".join(lines)

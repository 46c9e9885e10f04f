"""Our programs as a newcomer starts them: from a terminal, on this machine."""

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


class Said(NamedTuple):
    """How a program ended, and all it said."""

    code: int
    text: str

    def line_with(self, *words: str) -> str:
        """The first line that names all of it; there must be one, and no traceback around it."""
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
) -> Said:
    """Run `python -m words...` to its end, or until it says `until`, and then tell it to end.

    With `until`, a program that has not said it within the time has said too little, which the caller finds out.
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
    return Said(program.returncode, text)


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

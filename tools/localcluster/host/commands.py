"""Run other programs to their end. A failure becomes one line with the name, the exit code and the last errors."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.localcluster import progress
from tools.localcluster.errors import ClusterProblem

# The marks of errors in the logs of klog, logrus and most others.
ERROR_LINE = re.compile(r"^[EF]\d{4} |level=(error|fatal)|\berror\b|\bpanic\b", re.IGNORECASE)

_DOWNLOAD_PAUSES = (5.0, 30.0)


def run(
    argv: Sequence[object],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_seconds: float | None = 600,
) -> str:
    """Run a program, return its stdout. Raises ClusterProblem when it is missing, fails or takes too long."""
    words = [str(word) for word in argv]
    try:
        ended = subprocess.run(
            words,
            input=stdin,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            timeout=timeout_seconds,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as missing:
        raise ClusterProblem(f"{words[0]}: no such program on this machine ({missing.filename})") from missing
    except subprocess.TimeoutExpired as late:
        raise ClusterProblem(f"`{shlex.join(words)}` did not end within {timeout_seconds:.0f} s") from late
    if ended.returncode != 0:
        raise ClusterProblem(
            f"`{shorten(shlex.join(words))}` exit {ended.returncode}: {last_errors(ended.stderr or ended.stdout)}"
        )
    return ended.stdout


def download(
    argv: Sequence[object], *, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """Run a program that downloads, up to three times: a mirror that fails is often back after seconds."""
    for pause_seconds in _DOWNLOAD_PAUSES:
        try:
            return run(argv, environment=environment, folder=folder)
        except ClusterProblem as problem:
            progress.report(f"{problem}; trying again in {pause_seconds:.0f} s")
            time.sleep(pause_seconds)
    return run(argv, environment=environment, folder=folder)


def succeeds(argv: Sequence[object], *, timeout_seconds: float = 20) -> bool:
    """Return whether a program exists, ends in time and with exit code 0."""
    try:
        run(argv, timeout_seconds=timeout_seconds)
    except ClusterProblem:
        return False
    return True


def last_errors(output: str, lines: int = 3) -> str:
    """Return the last errors in a program's output on one line; of output without any, its end."""
    printed = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in printed[-50:] if ERROR_LINE.search(line)]
    return " | ".join((errors or printed)[-lines:]) or "it printed nothing"


def shorten(text: str, limit: int = 160) -> str:
    """Return the text, cut in the middle when it is longer than `limit`."""
    return text if len(text) <= limit else f"{text[: limit // 2]} ... {text[-limit // 3 :]}"

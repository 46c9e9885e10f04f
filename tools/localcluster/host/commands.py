"""Other programs, run to their end. One that fails becomes a line with its name, its exit code and its last words."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.localcluster.errors import ClusterProblem

# How klog, logrus and most others mark what went wrong.
TELLING = re.compile(r"^[EF]\d{4} |level=(error|fatal)|\berror\b|\bpanic\b", re.IGNORECASE)


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
            f"`{shorten(shlex.join(words))}` exit {ended.returncode}: {last_words(ended.stderr or ended.stdout)}"
        )
    return ended.stdout


def succeeds(argv: Sequence[object], *, timeout_seconds: float = 20) -> bool:
    """Whether a program exists, ends in time and with exit code 0."""
    try:
        run(argv, timeout_seconds=timeout_seconds)
    except ClusterProblem:
        return False
    return True


def last_words(output: str, lines: int = 3) -> str:
    """The last errors in a program's output on one line; of output without any, its end."""
    spoken = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in spoken[-50:] if TELLING.search(line)]
    return " | ".join((telling or spoken)[-lines:]) or "it printed nothing"


def shorten(text: str, limit: int = 160) -> str:
    """A long command, cut in the middle."""
    return text if len(text) <= limit else f"{text[: limit // 2]} ... {text[-limit // 3 :]}"

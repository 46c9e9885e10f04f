"""Types command lines into a shell, in a folder and with an environment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from e2e.demo.steps import Line, Typed

TOO_SLOW = 124
"""Exit code of a command line that was ended because its time was over, as of timeout(1)."""
_END_SECONDS = 10.0


def environment(reach: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which koordctl, kubectl and helm are found and reach a cluster; no browser opens."""
    programs = f"{Path(sys.executable).parent}:{reach.get('PATH') or os.environ['PATH']}"
    return {**os.environ, **reach, "PATH": programs, "BROWSER": "true", "PYTHONUNBUFFERED": "1"}


class Terminal:
    """A shell in a folder. Standard output and standard error are one output, as on a screen."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self._variables = dict(variables)
        if (
            signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        ):  # in a job of the background: programs would ignore it too
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def run(self, line: Line, within_seconds: float) -> Typed:
        """Run a command line to its end, or until its output ends it; after the time it is ended."""
        argv = ["bash", "-o", "pipefail", "-c", f"exec {line.text}" if line.until else line.text]
        with subprocess.Popen(
            argv,
            cwd=self.folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        ) as program:
            assert program.stdout is not None
            is_late = threading.Event()

            def end() -> None:
                is_late.set()
                os.killpg(program.pid, signal.SIGKILL)

            timer = threading.Timer(max(within_seconds, 0.1), end)
            timer.start()
            try:
                output = ""
                for text in program.stdout:
                    output += text
                    if line.until and re.search(line.until, text):
                        program.send_signal(signal.SIGINT)
                code = program.wait(_END_SECONDS)
            finally:
                timer.cancel()
        return Typed(TOO_SLOW if is_late.is_set() else code, output)

"""The load watcher as a process of this machine: `python -m scheduler_plugin.load_watcher`."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from e2e.support import waiting
from tools.localcluster import content_cache
from tools.localcluster.host import ports, processes
from tools.localcluster.host.processes import Program

_NAME: Final = "load-watcher"
_QUICK_SECONDS: Final = 0.02


class HostWatcher:
    """One watcher that refreshes every second and keeps a file. It keeps its port over a restart."""

    def __init__(self, folder: Path, kubeconfig: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._environment = environment
        self._port = ports.free_port()
        self.database = folder / "windows.sqlite"
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, not waiting for anything."""
        argv = [
            *(sys.executable, "-m", "scheduler_plugin.load_watcher"),
            f"--kubeconfig={self._kubeconfig}", f"--http-port={self._port}", "--http-address=127.0.0.1",
            f"--database-file={self.database}", "--interval-seconds=1",
        ]  # fmt: skip
        environment = {"PYTHONPATH": str(content_cache.REPOSITORY), **self._environment}
        processes.start(Program(_NAME, argv, environment), self._folder)

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end."""
        process = processes.find(_NAME, self._folder)
        assert process is not None, "the watcher does not run"
        process.kill()
        waiting.until("the watcher is gone", lambda: processes.find(_NAME, self._folder) is None)

    def stop(self) -> None:
        """End it, if it runs."""
        processes.stop(_NAME, self._folder)

    def document(self) -> dict[str, Any] | None:
        """Return the document with 15-minute windows; None while it does not serve one, or does not listen."""
        try:
            with urllib.request.urlopen(f"{self.url}/watcher", timeout=5) as answer:
                document: dict[str, Any] = json.loads(answer.read())
                return document
        except OSError:  # of which HTTPError is one
            return None

    def first_document(self) -> dict[str, Any]:
        """Wait for the first answer with metrics."""
        found = waiting.until("the watcher answers", self.document, every_seconds=_QUICK_SECONDS)
        assert found is not None
        return found

    def log(self) -> str:
        """Return its log."""
        return (self._folder / f"{_NAME}.log").read_text(errors="replace")

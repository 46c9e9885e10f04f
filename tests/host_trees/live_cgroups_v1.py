"""Real throw-away v1 cgroups with real processes, laid out as a kubelet does, seen through a root of their own.

The groups stand below one group made for the test in each controller, and `cgroup_root` is a folder of links to those:
a kubelet that runs on the same machine neither sees nor disturbs them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from koordlet.collectors.host_root import HostRoot

_CONTROLLERS = ("cpuacct", "memory")
_MOUNT = Path("/sys/fs/cgroup")


def why_not() -> str | None:
    """Why real groups cannot be made here, None when they can."""
    if os.geteuid() != 0:
        return "needs root to make cgroups"
    if not all((_MOUNT / controller / "cgroup.procs").exists() for controller in _CONTROLLERS):
        return "needs cgroup v1 controllers cpuacct and memory"
    return None


needed = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


class LiveCgroups:
    """A tree of real groups; `close` ends every process in it and removes it."""

    def __init__(self, folder: Path) -> None:
        self.name = f"koordlet-test-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.host_root = HostRoot(Path("/proc"), folder)
        self._processes: list[subprocess.Popen[bytes]] = []
        for controller in _CONTROLLERS:
            top = _MOUNT / controller / self.name
            top.mkdir()
            (folder / controller).symlink_to(top)

    def group(self, path: str) -> None:
        """Make a group, with those above it."""
        for controller in _CONTROLLERS:
            (_MOUNT / controller / self.name / path).mkdir(parents=True, exist_ok=True)

    def run(self, path: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process inside a group; its standard input and output are pipes."""
        joins = " && ".join(
            f"echo $$ > {_MOUNT}/{controller}/{self.name}/{path}/cgroup.procs" for controller in _CONTROLLERS
        )
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'{joins} && exec "$@"', "sh", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._processes.append(process)
        return process

    def read(self, controller: str, path: str, file: str) -> str:
        """Read a file of a group from outside, by its real path."""
        return (_MOUNT / controller / self.name / path / file).read_text()

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill one process and wait for it."""
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self._processes.remove(process)

    def remove(self, path: str) -> None:
        """Remove a group and those below it, once empty."""
        for controller in _CONTROLLERS:
            _remove_tree(_MOUNT / controller / self.name / path)

    def close(self) -> None:
        """End all processes, remove all groups."""
        for process in list(self._processes):
            self.end(process)
        for controller in _CONTROLLERS:
            _remove_tree(_MOUNT / controller / self.name)


def _remove_tree(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        for _ in range(100):  # the kernel lets go of a killed process a moment after its exit
            try:
                Path(folder).rmdir()
                break
            except OSError:
                time.sleep(0.005)
        else:
            Path(folder).rmdir()

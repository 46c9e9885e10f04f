"""Make temporary cgroups with real processes, in the version of this machine, below a root of their own.

The groups are below one group made for the test, and `cgroup_root` contains nothing else: a kubelet on the same machine
neither sees nor affects them. The expected values are read here as text, by the real paths.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from koordlet.collectors.host import HostRoot
from tests.host_trees.plain_files import V1, V2

_MOUNT = Path("/sys/fs/cgroup")
_V1_CONTROLLERS = ("cpu", "cpuacct", "memory")
_V2_CONTROLLERS = ("cpu", "memory")
_PERIOD_MICROSECONDS = 100_000
"""Period of the CPU quota, the default of the kernel."""


def version_here() -> str | None:
    """Return the version of the cgroups that can be made here, None without permission."""
    if os.geteuid() != 0:
        return None
    if all((_MOUNT / controller / "cgroup.procs").exists() for controller in _V1_CONTROLLERS):
        return V1
    unified = _MOUNT / "cgroup.controllers"
    return V2 if unified.exists() and set(_V2_CONTROLLERS) <= set(unified.read_text().split()) else None


def why_not(version: str | None = None) -> str | None:
    """Return the reason for which real groups (of that version) cannot be made here, None when they can."""
    here = version_here()
    if here is None:
        return f"needs root, and cgroup controllers v1 {_V1_CONTROLLERS} or v2 {_V2_CONTROLLERS}"
    return None if version in (None, here) else f"needs cgroups {version}; here they are {here}"


def waited_seconds(folder: Path, suffix: str) -> dict[str, dict[str, float]]:
    """Return resource -> kind -> seconds, from the pressure files in a folder."""
    found: dict[str, dict[str, float]] = {}
    for resource in ("cpu", "memory", "io"):
        lines = (folder / f"{resource}{suffix}").read_text().splitlines()
        found[resource] = {line.split()[0]: int(line.rpartition("total=")[2]) / 1e6 for line in lines}
    return found


needed = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


class LiveCgroups:
    """A tree of real groups; `close` ends every process in it and removes it."""

    def __init__(self, folder: Path) -> None:
        self.version = version_here()
        name = f"koordlet-test-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._processes: list[subprocess.Popen[bytes]] = []
        if self.version == V1:
            self._tops = {controller: _MOUNT / controller / name for controller in _V1_CONTROLLERS}
            self.host_root = HostRoot(Path("/proc"), folder)
            for controller, top in self._tops.items():
                top.mkdir(exist_ok=True)  # cpu and cpuacct may be one mount
                (folder / controller).symlink_to(top)
        else:
            self._tops = dict.fromkeys(_V2_CONTROLLERS, _MOUNT / name)
            self.host_root = HostRoot(Path("/proc"), _MOUNT / name)
            self._make_v2(_MOUNT / name)
            self._enable(_MOUNT / name)

    def group(self, path: str) -> None:
        """Make a group and its parents."""
        if self.version == V2:
            self._make_v2(self.folder("cpu", path))
            return
        for top in self._tops.values():
            (top / path).mkdir(parents=True, exist_ok=True)

    def _make_v2(self, folder: Path) -> None:
        """Enable the controllers in the parents first: a group has the controllers that its parent enables."""
        if not folder.exists():
            self._make_v2(folder.parent)
            self._enable(folder.parent)
            folder.mkdir()

    def _enable(self, folder: Path) -> None:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _V2_CONTROLLERS))

    def folder(self, controller: str, path: str) -> Path:
        """Return the real path of a group in the hierarchy of a controller."""
        return self._tops[controller] / path

    def run(self, path: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process inside a group; its standard input and output are pipes."""
        joins = " && ".join(f"echo $$ > {top}/{path}/cgroup.procs" for top in set(self._tops.values()))
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'{joins} && exec "$@"', "sh", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._processes.append(process)
        return process

    def limit_cpu(self, path: str, cores: float) -> None:
        """Limit the CPU of a group."""
        quota = round(cores * _PERIOD_MICROSECONDS)
        if self.version == V1:
            (self.folder("cpu", path) / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.folder("cpu", path) / "cpu.max").write_text(f"{quota} {_PERIOD_MICROSECONDS}")

    def limit_memory(self, path: str, limit_bytes: int) -> None:
        """Limit the memory of a group; the kernel kills processes beyond it."""
        file = "memory.limit_in_bytes" if self.version == V1 else "memory.max"
        (self.folder("memory", path) / file).write_text(str(limit_bytes))

    def cpu_nanoseconds(self, path: str) -> int:
        """Return the CPU time of a group."""
        if self.version == V1:
            return int((self.folder("cpuacct", path) / "cpuacct.usage").read_text())
        return self._numbers("cpu", path, "cpu.stat")["usage_usec"] * 1000

    def throttling(self, path: str) -> tuple[int, int, float]:
        """Return the periods of a group, the throttled ones, and the throttled seconds."""
        numbers = self._numbers("cpu", path, "cpu.stat")
        seconds = numbers["throttled_time"] / 1e9 if self.version == V1 else numbers["throttled_usec"] / 1e6
        return numbers["nr_periods"], numbers["nr_throttled"], seconds

    def memory_stat(self, path: str) -> dict[str, int]:
        """Return the hierarchical memory.stat of a group, by the names of v2."""
        numbers = self._numbers("memory", path, "memory.stat")
        if self.version == V2:
            return numbers
        whole = {name.removeprefix("total_"): number for name, number in numbers.items() if name.startswith("total_")}
        return whole | {"file": whole["cache"], "anon": whole["rss"]}

    def oom_kills(self, path: str) -> int:
        """Return the number of processes of a group that the kernel killed for lack of memory."""
        return self._numbers("memory", path, "memory.oom_control" if self.version == V1 else "memory.events")[
            "oom_kill"
        ]

    def _numbers(self, controller: str, path: str, file: str) -> dict[str, int]:
        lines = (self.folder(controller, path) / file).read_text().splitlines()
        return {key: int(value) for key, value in (line.split() for line in lines)}

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill one process and wait for it."""
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self._processes.remove(process)

    def remove(self, path: str) -> None:
        """Remove a group and its children, once empty."""
        for top in set(self._tops.values()):
            _remove_tree(top / path)

    def close(self) -> None:
        """End all processes, remove all groups."""
        for process in list(self._processes):
            self.end(process)
        self.remove("")


def _remove_tree(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        for _ in range(100):  # the kernel releases a killed process shortly after its exit
            try:
                Path(folder).rmdir()
                break
            except OSError:
                time.sleep(0.005)
        else:
            Path(folder).rmdir()

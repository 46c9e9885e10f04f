"""The kernel's accounting of a pod, read from its cgroup by this process, as reference for the agent's report.

The pod's folder is found by the UID in its name, with any hierarchy, driver and runtime.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

CGROUPS = Path("/sys/fs/cgroup")
_EVERY_SECONDS = 0.25


class Account(NamedTuple):
    """Counters of the kernel at one time."""

    at_seconds: float
    cpu_seconds: float
    memory_bytes: int
    """Anonymous memory of the processes, without page cache."""


def cpu_seconds(pod_uid: str) -> float:
    """Return the CPU time of a pod until now, with its ended containers. Raises LookupError, as below."""
    return _cpu_seconds(_cpu_file(pod_uid))


class CgroupWitness:
    """Reads a pod's counters until it is closed. Raises LookupError when the cgroup is not visible."""

    def __init__(self, pod_uid: str) -> None:
        self._cpu = _cpu_file(pod_uid)
        self._memory = find("memory", pod_uid, "memory.stat") or find("", pod_uid, "memory.stat")
        if self._memory is None:
            raise _not_visible(pod_uid)
        self.accounts: list[Account] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join()

    def _read_on(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            self.accounts.append(Account(time.time(), _cpu_seconds(self._cpu), self._memory_bytes()))

    def _memory_bytes(self) -> int:
        assert self._memory is not None
        fields = _fields(self._memory.read_text())
        return int(fields["total_rss"] if "total_rss" in fields else fields["anon"])

    def cpu_seconds_between(self, start_seconds: float, end_seconds: float) -> float:
        """CPU time that the pod used between two moments, both within what was read (LookupError)."""
        return self._cpu_seconds_at(end_seconds) - self._cpu_seconds_at(start_seconds)

    def memory_bytes_between(self, start_seconds: float, end_seconds: float) -> float:
        """Mean memory between two moments."""
        values = [each.memory_bytes for each in self.accounts if start_seconds <= each.at_seconds <= end_seconds]
        return sum(values) / len(values)

    def _cpu_seconds_at(self, at_seconds: float) -> float:
        for before, after in zip(self.accounts, self.accounts[1:], strict=False):
            if before.at_seconds <= at_seconds <= after.at_seconds:
                share = (at_seconds - before.at_seconds) / (after.at_seconds - before.at_seconds)
                return before.cpu_seconds + share * (after.cpu_seconds - before.cpu_seconds)
        first, last = (self.accounts[0].at_seconds, self.accounts[-1].at_seconds) if self.accounts else (0.0, 0.0)
        raise LookupError(f"nothing was read at {at_seconds:.1f}, only from {first:.1f} to {last:.1f}")


def quota_millis(pod_uid: str) -> int:
    """Return the CPU that a container of the pod may use, the smallest of all. Raises LookupError without any quota."""
    pod = find("cpu", pod_uid, "cpu.cfs_quota_us") or find("", pod_uid, "cpu.max")
    if pod is None:
        raise _not_visible(pod_uid)
    found = [_quota_millis(file) for file in pod.parent.glob(f"*/{pod.name}")]
    if not (limited := [each for each in found if each is not None]):
        raise LookupError(f"no container of pod {pod_uid} has a quota")
    return min(limited)


def _quota_millis(file: Path) -> int | None:
    period = file.with_name("cpu.cfs_period_us")
    quota, per = file.read_text().split() if file.name == "cpu.max" else (file.read_text(), period.read_text())
    return None if quota.strip() in ("max", "-1") else round(1000 * int(quota) / int(per))


def _not_visible(pod_uid: str) -> LookupError:
    return LookupError(f"no cgroup of pod {pod_uid} below {CGROUPS}: its node is another machine")


def cpu_seconds_of_all_pods() -> float | None:
    """Return the CPU that all pods of this machine have used, None where the node is another machine."""
    for name in ("cpuacct/kubepods/cpuacct.usage", "kubepods/cpu.stat", "kubepods.slice/cpu.stat"):
        if (file := CGROUPS / name).exists():
            return _cpu_seconds(file)
    return None


def _cpu_file(pod_uid: str) -> Path:
    found = find("cpuacct", pod_uid, "cpuacct.usage") or find("", pod_uid, "cpu.stat")
    if found is None:
        raise _not_visible(pod_uid)
    return found


def _cpu_seconds(file: Path) -> float:
    text = file.read_text()
    if file.name == "cpuacct.usage":
        return int(text) / 1e9
    return int(_fields(text)["usage_usec"]) / 1e6


def find(controller: str, pod_uid: str, file: str) -> Path | None:
    """Return a file of a pod's cgroup; `controller` is empty on cgroup v2.

    No glob: it fails when another program removes a folder while it is read.
    """
    # The drivers cgroupfs and systemd, which puts the names of the parents first.
    ends = f"pod{pod_uid}", f"pod{pod_uid.replace('-', '_')}.slice"
    for folder, below, _ in os.walk(CGROUPS / controller):
        for name in (each for each in below if each.endswith(ends)):
            found = Path(folder, name, file)
            if found.exists():
                return found
    return None


def _fields(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.splitlines())

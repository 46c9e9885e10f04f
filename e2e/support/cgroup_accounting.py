"""The kernel's accounting of pods in their control groups, as reference for the agent's report."""

from __future__ import annotations

import itertools
from pathlib import PurePosixPath
from typing import NamedTuple

from e2e.support import control_groups
from e2e.support.control_groups import Group, Pod
from e2e.support.node_sampler import NodeSampler

_V1_CPU, _V1_QUOTA, _V1_PERIOD = "cpuacct.usage", "cpu.cfs_quota_us", "cpu.cfs_period_us"
_V2_CPU, _V2_QUOTA = "cpu.stat", "cpu.max"
_MEMORY = "memory.stat"
_UNLIMITED = ("max", "-1")


class Account(NamedTuple):
    """Counters of the kernel at one time of the node's clock."""

    at_seconds: float
    cpu_seconds: float
    memory_bytes: int
    """Anonymous memory of the processes, without page cache."""


class Quota(NamedTuple):
    """A CPU limit in the kernel, and the files that have it: quota and period, or both in one."""

    millis: int
    files: tuple[PurePosixPath, ...]


def cpu_seconds(group: Group) -> float:
    """Return the CPU time of a group until now, with its ended containers. Raises LookupError."""
    files = {path.name: lines for path, lines in group.files(_V1_CPU, _V2_CPU).items()}
    if _V1_CPU in files:
        return int(files[_V1_CPU][0]) / 1e9
    return int(control_groups.fields(files[_V2_CPU])["usage_usec"]) / 1e6


class CgroupWitness:
    """Reads a pod's counters in its node until it is closed. Raises LookupError without such a group."""

    def __init__(self, pod: Pod) -> None:
        group = control_groups.of_pod(pod)
        files = {path.name: path for path in group.files(_V1_CPU, _V2_CPU, _MEMORY)}
        self._is_v1 = _V1_CPU in files
        cpu, memory = (files[_V1_CPU], "total_rss ") if self._is_v1 else (files[_V2_CPU], "anon ")
        self._sampler = NodeSampler(group.node, (cpu, "" if self._is_v1 else "usage_usec "), (files[_MEMORY], memory))

    def close(self) -> None:
        """Stop reading."""
        self._sampler.close()

    def _accounts(self) -> list[Account]:
        per_second = 1e9 if self._is_v1 else 1e6
        return [
            Account(at, _last_number(cpu) / per_second, _last_number(memory))
            for at, (cpu, memory) in self._sampler.samples()
        ]

    def cpu_seconds_between(self, start_seconds: float, end_seconds: float) -> float:
        """CPU time that the pod used between two moments, both within what was read (LookupError)."""
        accounts = self._accounts()
        return _cpu_seconds_at(accounts, end_seconds) - _cpu_seconds_at(accounts, start_seconds)

    def memory_bytes_between(self, start_seconds: float, end_seconds: float) -> float:
        """Mean memory between two moments."""
        values = [one.memory_bytes for one in self._accounts() if start_seconds <= one.at_seconds <= end_seconds]
        return sum(values) / len(values)


def _last_number(line: str) -> int:
    return int(line.rsplit(maxsplit=1)[-1])


def _cpu_seconds_at(accounts: list[Account], at_seconds: float) -> float:
    for before, after in itertools.pairwise(accounts):
        if before.at_seconds <= at_seconds <= after.at_seconds:
            share = (at_seconds - before.at_seconds) / (after.at_seconds - before.at_seconds)
            return before.cpu_seconds + share * (after.cpu_seconds - before.cpu_seconds)
    first, last = accounts[0].at_seconds, accounts[-1].at_seconds
    raise LookupError(f"nothing was read at {at_seconds:.1f}, only from {first:.1f} to {last:.1f}")


def quota(pod: Pod) -> Quota:
    """Return the CPU that a container of the pod may use, the smallest of all. Raises LookupError without any quota."""
    files = control_groups.of_pod(pod).files(*(f"*/{name}" for name in (_V1_QUOTA, _V1_PERIOD, _V2_QUOTA)))
    quotas = []
    for path in files:
        if path.name != _V1_PERIOD:
            of_one = (path, path.with_name(_V1_PERIOD)) if path.name == _V1_QUOTA else (path,)
            millis = quota_millis(" ".join(files[part][0] for part in of_one))
            quotas += [] if millis is None else [Quota(millis, of_one)]
    if not quotas:
        raise LookupError(f"no container of pod {pod['metadata']['name']} has a quota")
    return min(quotas)


def quota_millis(words: str) -> int | None:
    """Return a limit in milli-cores of its quota and its period, None where there is none."""
    text, period = words.split()
    return None if text in _UNLIMITED else round(1000 * int(text) / int(period))

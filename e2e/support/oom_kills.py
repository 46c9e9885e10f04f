"""Processes that the kernel killed for want of memory, by pod, from the cgroups of this machine.

The counter of a pod includes its containers on cgroup v2; on v1 each folder has its own, so they are added up.
"""

from __future__ import annotations

from pathlib import Path

from e2e.support import cgroup_accounting

_V1_FILE, _V2_FILE, _COUNTER = "memory.oom_control", "memory.events", "oom_kill"


def of_pod(uid: str) -> int:
    """Return the kills in a pod and its present containers. Raises LookupError where its cgroup is not visible."""
    if v1 := cgroup_accounting.find("memory", uid, _V1_FILE):
        return sum(_kills(folder / _V1_FILE) for folder in (v1.parent, *v1.parent.iterdir()) if folder.is_dir())
    if v2 := cgroup_accounting.find("", uid, _V2_FILE):
        return _kills(v2)
    raise LookupError(f"no memory cgroup of pod {uid} below {cgroup_accounting.CGROUPS}: its node is another machine")


def _kills(file: Path) -> int:
    """Return the counter of a group; 0 for one that is being removed."""
    try:
        fields = dict(line.split() for line in file.read_text().splitlines())
    except OSError:
        return 0
    return int(fields[_COUNTER])

"""Processes that the kernel killed for want of memory, by pod, from the cgroups of this machine.

The counter of a pod includes its containers on cgroup v2; on v1 each folder has its own, so they are added up.
"""

from __future__ import annotations

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
_V1_FILE, _V2_FILE, _COUNTER = "memory.oom_control", "memory.events", "oom_kill"


def of_pod(uid: str) -> int:
    """Return the kills in a pod and its present containers. Raises LookupError where its cgroup is not visible."""
    for root, file in ((CGROUPS / "memory", _V1_FILE), (CGROUPS, _V2_FILE)):
        names = (f"pod{uid}", f"pod{uid.replace('-', '_')}.slice")
        folders = [folder for name in names for folder in root.glob(f"**/*{name}") if (folder / file).exists()]
        if folders:
            (pod,) = folders
            files = [pod / file, *pod.glob(f"*/{file}")] if file == _V1_FILE else [pod / file]
            return sum(map(_kills, files))
    raise LookupError(f"no memory cgroup of pod {uid} below {CGROUPS}: its node is another machine")


def _kills(file: Path) -> int:
    fields = dict(line.split() for line in file.read_text().splitlines())
    return int(fields[_COUNTER])

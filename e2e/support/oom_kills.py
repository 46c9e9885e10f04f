"""Processes that the kernel killed for want of memory, by pod, from the cgroups of this machine.

The counter of a pod includes its containers on cgroup v2; on v1 each folder has its own, so they are added up.
"""

from __future__ import annotations

import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
_V1_FILE, _V2_FILE, _COUNTER = "memory.oom_control", "memory.events", "oom_kill"


def of_pod(uid: str) -> int:
    """Return the kills in a pod and its present containers. Raises LookupError where its cgroup is not visible."""
    for root, file in ((CGROUPS / "memory", _V1_FILE), (CGROUPS, _V2_FILE)):
        names = (f"pod{uid}", f"pod{uid.replace('-', '_')}.slice")
        # Not by a glob, which fails when another program removes a folder while it is read.
        folders = [Path(at) for at, _, files in os.walk(root) if at.endswith(names) and file in files]
        if folders:
            (pod,) = folders
            folders = [pod, *pod.iterdir()] if file == _V1_FILE else [pod]
            return sum(_kills(folder / file) for folder in folders if folder.is_dir())
    raise LookupError(f"no memory cgroup of pod {uid} below {CGROUPS}: its node is another machine")


def _kills(file: Path) -> int:
    """Return the counter of a group; 0 for one that is being removed."""
    try:
        fields = dict(line.split() for line in file.read_text().splitlines())
    except OSError:
        return 0
    return int(fields[_COUNTER])

"""Processes that the kernel killed for want of memory, by pod.

The counter of a pod includes its containers on cgroup v2; on v1 each folder has its own, so they are added up.
"""

from __future__ import annotations

from e2e.support import control_groups
from e2e.support.control_groups import Pod

_V1_FILE, _V2_FILE = "memory.oom_control", "memory.events"


def of_pod(pod: Pod) -> int:
    """Return the kills in a pod and its present containers. Raises LookupError where it has no group."""
    files = control_groups.of_pod(pod).files(_V1_FILE, f"*/{_V1_FILE}", _V2_FILE)
    return sum(int(control_groups.fields(lines)["oom_kill"]) for lines in files.values())

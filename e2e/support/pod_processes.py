"""Processes of pods, killed in their node, which the API cannot do."""

from __future__ import annotations

from e2e.support import control_groups
from e2e.support.control_groups import Pod
from tools.localcluster import running

_KILL = """
for pid in {pids}; do
    words=$(tr '\\0' ' ' 2>/dev/null </proc/$pid/cmdline)
    case " $words " in *" {words} "*) kill -KILL $pid && echo $pid && break ;; esac
done
"""


def kill(pod: Pod, *words: str) -> None:
    """Kill the process of a pod whose command line has these words in a row. Raises LookupError."""
    group = control_groups.of_pod(pod)
    pids = {pid for lines in group.files("cgroup.procs", "*/cgroup.procs").values() for pid in lines}
    script = _KILL.format(pids=" ".join(sorted(pids)), words=" ".join(words))
    if not running.provider().shell(group.node, script).strip():
        raise LookupError(f"pod {pod['metadata']['name']} on node {group.node} has no process {' '.join(words)}")

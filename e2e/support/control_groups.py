"""Control groups of pods, read in their node by its shell: with any hierarchy, driver and runtime."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tools.localcluster import running

_ROOT = "/sys/fs/cgroup"

Pod = Mapping[str, Any]


class Group(NamedTuple):
    """A control group of a node: one folder on cgroup v2, one for each controller on v1."""

    node: str
    names: tuple[str, ...]
    """Patterns of the shell; the name of the folder matches one."""

    def files(self, *patterns: str) -> dict[PurePosixPath, list[str]]:
        """Return the lines of files, named from the folder on. Raises LookupError where there is none of them."""
        names = " -o ".join(f"-name '{name}'" for name in self.names)
        paths = " ".join(f'"$folder"/{pattern}' for pattern in patterns)
        script = f"""
find {_ROOT} -type d \\( {names} \\) -prune 2>/dev/null | while read -r folder; do grep -sH '' {paths}; done
true"""
        lines = defaultdict(list)
        for text in running.provider().shell(self.node, script).splitlines():
            path, _, line = text.partition(":")
            lines[PurePosixPath(path)].append(line)
        if not lines:
            raise LookupError(f"node {self.node}: no {' or '.join(patterns)} of a group {' or '.join(self.names)}")
        return dict(lines)


def of_pod(pod: Pod) -> Group:
    """Return the group of a pod: the drivers cgroupfs and systemd make its name of the UID. Raises LookupError."""
    uid = pod["metadata"]["uid"]
    return Group(pod["spec"]["nodeName"], (f"*pod{uid}", f"*pod{uid.replace('-', '_')}.slice"))


def of_all_pods(node: str) -> Group:
    """Return the group of all pods of a node; in a node of kind its name has a prefix."""
    return Group(node, ("kubepods", "*kubepods.slice"))


def fields(lines: list[str]) -> dict[str, str]:
    """Return the values of a file with a name and a value in each line."""
    return dict(line.split(maxsplit=1) for line in lines)

"""Replacement for a kubelet on the soak's node: pods get real cgroups, each with a process that uses some CPU."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.host_trees import group_names, live_cgroups
from tests.host_trees.group_names import GroupNames
from tests.host_trees.live_cgroups import LiveCgroups
from tools.localcluster.errors import ClusterProblem

_WORK = "while sleep 0.2; do i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done; done"
_CONTAINER = "c" * 64


class _Group(NamedTuple):
    path: str
    process: subprocess.Popen[bytes]


class PodGroups:
    """Groups of the pods of one node, below a root of their own. Raises ClusterProblem where none can be made."""

    def __init__(self, host_root: Path) -> None:
        if reason := live_cgroups.why_not():
            raise ClusterProblem(f"the pods of a soak have real cgroups: {reason}")
        views, usual = host_root / "views", host_root / "sys/fs/cgroup"
        views.mkdir(parents=True)
        usual.parent.mkdir(parents=True)
        (host_root / "proc").symlink_to("/proc")
        self.host_root = host_root
        self._live = LiveCgroups(views)
        usual.symlink_to(self._live.host_root.cgroup_root)
        self._groups: dict[str, _Group] = {}

    def follow(self, wanted: Mapping[str, bool]) -> None:
        """Make the groups of exactly these pods: UID -> whether it is a Mid pod, which requests no native cpu."""
        for uid in self._groups.keys() - wanted.keys():
            path, process = self._groups.pop(uid)
            self._live.end(process)
            self._live.remove(path)
        for uid in wanted.keys() - self._groups.keys():
            qos = group_names.BESTEFFORT if wanted[uid] else group_names.BURSTABLE
            container = str(GroupNames().container(uid, _CONTAINER, qos))
            self._live.group(container)
            self._groups[uid] = _Group(str(GroupNames().pod(uid, qos)), self._live.run(container, "sh", "-c", _WORK))

    def limit_cpu(self, uid: str, cores: float) -> None:
        """Set the CPU limit of a pod."""
        self._live.limit_cpu(self._groups[uid].path, cores)

    def close(self) -> None:
        """End all processes, remove all groups."""
        self._live.close()

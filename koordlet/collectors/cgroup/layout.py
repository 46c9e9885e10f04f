"""Mounts and versions of the CPU and memory controllers, and the groups below which a kubelet has its pods.

Each controller is searched by itself, because hosts mix both versions (hybrid). A failed search returns a `NoData` with
the paths tried and never raises, so that an agent on an unusual host still measures the node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from koordlet.collectors.cgroup import names as cgroup_names
from koordlet.collectors.cgroup.files import CgroupVersion
from koordlet.samples import NoData

_V1_CPU_MOUNTS = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")
_V1_MEMORY_MOUNTS = ("memory",)
_V2_MOUNTS = (".", "unified")  # alone, or beside v1

_DEEPEST_ROOT = 8
"""Levels searched for a root of pods. Rootless kind on systemd is 7 deep, the deepest known."""
_MOST_GROUPS_SEARCHED = 5000
"""Groups visited in one search: limits it to some 30 ms on a host with many other groups."""

_STRAY_REASON = (
    "the container is not in its pod's group: kubelet and container runtime use different cgroup drivers; "
    "set SystemdCgroup = true in the runtime's configuration"
)


@dataclass(frozen=True, slots=True)
class ControllerMount:
    """Root folder of one controller's hierarchy."""

    path: Path
    version: CgroupVersion


@dataclass(frozen=True, slots=True)
class CgroupLayout:
    """The two hierarchies that the agent reads (in v2 they are one), and the location of the pods in both of them."""

    cpu: ControllerMount
    memory: ControllerMount
    roots_of_pods: tuple[str, ...]
    """Groups below which kubelets create their pods, relative to either mount."""


def probe(cgroup_root: Path) -> CgroupLayout | NoData:
    """Detect the controllers mounted below `cgroup_root`. Where a host has both versions of one, v1 is in use."""
    cpu = _v1_mount(cgroup_root, _V1_CPU_MOUNTS, "cpuacct.usage") or _v2_mount(cgroup_root, "cpu")
    memory = _v1_mount(cgroup_root, _V1_MEMORY_MOUNTS, "memory.stat") or _v2_mount(cgroup_root, "memory")
    if cpu is None or memory is None:
        missing = " and no ".join(name for name, mount in (("cpu", cpu), ("memory", memory)) if mount is None)
        return NoData(
            source="cgroup controllers",
            path=str(cgroup_root),
            reason=f"no {missing} controller, neither v1 (cpuacct/ and memory/, each with its files) nor v2 "
            "(listed in cgroup.controllers, here or in unified/): mount the host's /sys/fs/cgroup at this path",
        )
    roots = _roots_of_pods(cpu.path)
    return roots if isinstance(roots, NoData) else CgroupLayout(cpu, memory, roots)


def _v1_mount(cgroup_root: Path, names: Sequence[str], witness: str) -> ControllerMount | None:
    paths = (cgroup_root / name for name in names)
    return next((ControllerMount(path, CgroupVersion.V1) for path in paths if (path / witness).exists()), None)


def _v2_mount(cgroup_root: Path, controller: str) -> ControllerMount | None:
    for name in _V2_MOUNTS:
        path = cgroup_root / name
        try:
            controllers = (path / "cgroup.controllers").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue
        if controller in controllers:
            return ControllerMount(path, CgroupVersion.V2)
    return None


def _roots_of_pods(cpu_mount: Path) -> tuple[str, ...] | NoData:
    """Return the shallowest level of groups that contain pods.

    A deeper level belongs to a cluster that runs inside a container, and is part of that container.
    """
    level = [""]
    searched = 0
    for _ in range(_DEEPEST_ROOT):
        groups = [(parent, name) for parent in level for name in subgroups(f"{cpu_mount}/{parent}")]
        roots = tuple(sorted(parent + name for parent, name in groups if cgroup_names.is_root_of_pods(name)))
        if roots:
            return roots
        searched += len(groups)
        if not groups or searched > _MOST_GROUPS_SEARCHED:
            break
        level = [f"{parent}{name}/" for parent, name in groups]
    return NoData(
        source="pod cgroups",
        path=str(cpu_mount),
        reason=f"no kubepods or kubepods.slice in {searched} groups, at most {_DEEPEST_ROOT} levels deep: "
        "no kubelet runs here, or this is not the host's cgroup tree",
    )


def pods_with_stray_containers(cpu_mount: Path) -> Mapping[str, NoData]:
    """Return the pods whose containers run outside the pod's group, by UID, each with the reason.

    A runtime that uses cgroupfs under a kubelet that uses systemd creates containers beside or inside its own service,
    and the groups of the pods stay empty: their counters exist, and count nothing.
    """
    strays: dict[str, NoData] = {}
    services = (f"system.slice/{name}" for name in subgroups(f"{cpu_mount}/system.slice"))
    for folder in ("", "system.slice", *services):
        for name in subgroups(f"{cpu_mount}/{folder}"):
            if (uid := cgroup_names.pod_uid_of_stray(name)) is not None:
                strays[uid] = NoData("pod cgroups", str(cpu_mount / folder / name), _STRAY_REASON)
    return strays


def subgroups(directory: str) -> list[str]:
    """Return the names of the subgroups of a group; empty when it is gone."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []

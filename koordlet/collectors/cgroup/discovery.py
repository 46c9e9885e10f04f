"""Discovery of the cgroups of pods and containers.

The link count of a folder changes when a group appears or vanishes in it. A check therefore costs one `stat`, and only
changed folders are listed. Pods are searched every tick. The containers of a pod, which no decision needs, are listed
with the pod and in a full scan. The link count does not reveal a group that was replaced by another between two checks;
reading the old one then fails, and the reader calls `invalidate`. Everything is probed and listed again every
`FULL_SCAN_SECONDS` in any case.

inotify would save 0.2 ms per tick, but would need all of this as a fallback, because watches are scarce and shared by
all processes of a user. (The mtime of a cgroup's folder never changes.)

Each controller is searched by itself, because hosts mix both versions (hybrid). A failed search returns a `NoData` with
the paths tried and never raises, so that an agent on an unusual host still measures the node.

Two drivers name the same groups differently, and the parent's name prefixes every systemd slice, so a nested kubelet
(kind, k3s) adds to each name:

    cgroupfs   kubepods / burstable / pod<uid> / <container id>
    systemd    kubepods.slice / kubepods-burstable.slice / kubepods-burstable-pod<uid>.slice / <runtime>-<id>.scope
    nested     kubelet.slice / kubelet-kubepods.slice / kubelet-kubepods-burstable.slice / ...

Pods of the Guaranteed class are directly in the root. In the name of a slice, the dashes of a UID are underscores. The
UID of a static pod is a hash, not a UUID.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from koordlet.collectors.cgroup.files import CgroupVersion
from koordlet.samples import NoData

_ROOT = re.compile(r"kubepods|(?:.+-)?kubepods\.slice")
_QOS = re.compile(r"burstable|besteffort|(?:.+-)?kubepods-(?:burstable|besteffort)\.slice")
_POD = re.compile(
    r"pod(?P<uid>[0-9A-Za-z-]+)"
    r"|(?:.+-)?kubepods(?:-burstable|-besteffort)?-pod(?P<escaped_uid>[0-9A-Za-z_]+)\.slice"
)
# containerd writes cri-containerd-<id>.scope or <id>, cri-o crio-<id>[.scope], cri-dockerd docker-<id>.scope or <id>.
# conmon is cri-o's monitor of a container, not a container. Ids have 64 hex digits; 12 is the short form of old tools.
_CONTAINER = re.compile(r"(?:(?!.*conmon)[a-z][a-z-]*-)?(?P<id>[0-9a-f]{12,64})(?:\.scope)?")
# The kubelet uses the names of systemd and the runtime takes them for plain ones.
_STRAY = re.compile(rf"(?:{_POD.pattern}):[a-z][a-z-]*:[0-9a-f]{{12,64}}")


def is_root_of_pods(name: str) -> bool:
    """Return whether a folder with this name contains the pods of a kubelet."""
    return _ROOT.fullmatch(name) is not None


def is_qos_class(name: str) -> bool:
    """Return whether a folder with this name, in a root of pods, contains the pods of one QoS class."""
    return _QOS.fullmatch(name) is not None


def pod_uid(name: str) -> str | None:
    """Return the UID of the pod whose group has this name, None for any other group."""
    match = _POD.fullmatch(name)
    if match is None:
        return None
    plain, escaped = match.group("uid", "escaped_uid")
    return plain or str(escaped).replace("_", "-")


def container_id(name: str) -> str | None:
    """Return the id of the container whose group, inside a pod's, has this name, None for any other group.

    The sandbox ("pause") of a pod is a container here: only the status of the pod has the ids of named containers.
    """
    match = _CONTAINER.fullmatch(name)
    return match.group("id") if match else None


def pod_uid_of_stray(name: str) -> str | None:
    """Return the UID of the pod of a container whose group is outside the pod's, None for any other group.

    Such groups have the pod's slice, the runtime and the id in one name: `kubepods-pod<uid>.slice:cri-containerd:<id>`.
    """
    match = _STRAY.fullmatch(name)
    return pod_uid(name.partition(":")[0]) if match else None


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
        roots = tuple(sorted(parent + name for parent, name in groups if is_root_of_pods(name)))
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
            if (uid := pod_uid_of_stray(name)) is not None:
                strays[uid] = NoData("pod cgroups", str(cpu_mount / folder / name), _STRAY_REASON)
    return strays


def subgroups(directory: str) -> list[str]:
    """Return the names of the subgroups of a group; empty when it is gone."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


FULL_SCAN_SECONDS = 60.0
"""A full scan costs about as much as a tick, so this interval adds some 2 % to the agent's reads."""

_FEWEST_LINKS = 2
"""Smallest link count on a file system that counts subfolders as links, as cgroups do; others always have 1."""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The groups of one pod, as paths relative to a controller's mount."""

    path: str
    containers: Mapping[str, str]
    """Container id -> path, sandbox included."""


@dataclass(frozen=True, slots=True)
class DiscoveredGroups:
    """Every pod with a group, by UID, and the mounts of the hierarchies."""

    layout: CgroupLayout
    pods: Mapping[str, PodGroup]
    unmeasurable: Mapping[str, NoData]
    """Pods whose groups do not count their usage, by UID; none of them is in `pods`."""


@dataclass(frozen=True, slots=True)
class FollowedGroups:
    """Groups that are read: those of every measurable pod, and of its named containers."""

    layout: CgroupLayout
    pods: Mapping[str, tuple[str, ...]]
    """Pod UID -> path of its own group, then those of its containers."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """Content of a folder when its link count was `links`. The values of the mappings are paths."""

    links: int
    qos_classes: tuple[str, ...]
    pods: Mapping[str, str]
    containers: Mapping[str, str]


class CgroupDiscovery:
    """Finds the groups of pods and containers, and caches them until a link count changes."""

    def __init__(self, cgroup_root: Path) -> None:
        self._cgroup_root = cgroup_root
        self._layout: CgroupLayout | NoData | None = None
        self._strays: Mapping[str, NoData] = {}
        self._listings: dict[str, _Listing] = {}
        self._found: DiscoveredGroups | None = None
        self._pods: Mapping[str, str] = {}
        self._moved = False
        self._lost_listing = False
        self._next_full_scan_seconds = 0.0

    def refresh(self, monotonic_seconds: float) -> DiscoveredGroups | NoData:
        """Return the groups of this instant; the same object as before when nothing changed."""
        if self._layout is None or monotonic_seconds >= self._next_full_scan_seconds:
            self._next_full_scan_seconds = monotonic_seconds + FULL_SCAN_SECONDS
            self._layout = self._probe()
        return self._layout if isinstance(self._layout, NoData) else self._discover(self._layout)

    def invalidate(self, group_path: str) -> None:
        """Drop the cached content of the folder of this group, because reading the group failed."""
        self._lost_listing = True
        self._listings.pop(group_path.rpartition("/")[0], None)

    def _probe(self) -> CgroupLayout | NoData:
        self._listings.clear()
        self._found = None
        layout = probe(self._cgroup_root)
        if not isinstance(layout, NoData):
            self._strays = pods_with_stray_containers(layout.cpu.path)
        return layout

    def _discover(self, layout: CgroupLayout) -> DiscoveredGroups:
        mount = layout.cpu.path
        self._moved = False
        folders = [folder for root in layout.roots_of_pods for folder in (root, *self._list(mount, root).qos_classes)]
        listings = [self._list(mount, folder) for folder in folders]
        if self._found is None or self._moved:
            self._pods = {uid: path for listing in listings for uid, path in listing.pods.items()}
        if self._found is None or self._moved or self._lost_listing:
            self._lost_listing = False
            for path in self._pods.values():
                if path not in self._listings:
                    self._list(mount, path)
        if self._found is None or self._moved:
            containers = {uid: self._listings.get(path, _NOTHING).containers for uid, path in self._pods.items()}
            self._found = DiscoveredGroups(
                layout=layout,
                pods={
                    uid: PodGroup(path, containers[uid]) for uid, path in self._pods.items() if uid not in self._strays
                },
                unmeasurable={uid: reason for uid, reason in self._strays.items() if uid in self._pods},
            )
        return self._found

    def _list(self, mount: Path, path: str) -> _Listing:
        folder = f"{mount}/{path}"
        before = self._listings.get(path)
        try:
            links = os.stat(folder).st_nlink  # noqa: PTH116 - a hundred times a tick, Path doubles its cost
        except OSError:
            self._moved |= self._listings.pop(path, None) is not None
            return _NOTHING
        if before is not None and before.links == links >= _FEWEST_LINKS:
            return before
        listing = self._listings[path] = _listing(links, path, subgroups(folder))
        self._moved |= listing != before
        return listing


_NOTHING = _Listing(links=0, qos_classes=(), pods={}, containers={})


def _listing(links: int, folder: str, names: list[str]) -> _Listing:
    paths = {name: f"{folder}/{name}" for name in names}
    return _Listing(
        links=links,
        qos_classes=tuple(sorted(path for name, path in paths.items() if is_qos_class(name))),
        pods=_identified(paths, pod_uid),
        containers=_identified(paths, container_id),
    )


def _identified(paths: Mapping[str, str], identify: Callable[[str], str | None]) -> Mapping[str, str]:
    return {identity: path for name, path in paths.items() if (identity := identify(name)) is not None}

"""Discovery of the cgroups of pods and containers.

The link count of a folder changes when a group appears or vanishes in it. A check therefore costs one `stat`, and only
changed folders are listed. Pods are searched every tick. The containers of a pod, which no decision needs, are listed
with the pod and in a full scan. The link count does not reveal a group that was replaced by another between two checks;
reading the old one then fails, and the reader calls `invalidate`. Everything is probed and listed again every
`FULL_SCAN_SECONDS` in any case.

inotify would save 0.2 ms per tick, but would need all of this as a fallback, because watches are scarce and shared by
all processes of a user. (The mtime of a cgroup's folder never changes.)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from koordlet.collectors.cgroup import layout as cgroup_layout
from koordlet.collectors.cgroup.layout import CgroupLayout
from koordlet.samples import NoData

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
        layout = cgroup_layout.probe(self._cgroup_root)
        if not isinstance(layout, NoData):
            self._strays = cgroup_layout.pods_with_stray_containers(layout.cpu.path)
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
        listing = self._listings[path] = _listing(links, path, cgroup_layout.subgroups(folder))
        self._moved |= listing != before
        return listing


_NOTHING = _Listing(links=0, qos_classes=(), pods={}, containers={})


def _listing(links: int, folder: str, names: list[str]) -> _Listing:
    paths = {name: f"{folder}/{name}" for name in names}
    return _Listing(
        links=links,
        qos_classes=tuple(sorted(path for name, path in paths.items() if cgroup_layout.is_qos_class(name))),
        pods=_identified(paths, cgroup_layout.pod_uid),
        containers=_identified(paths, cgroup_layout.container_id),
    )


def _identified(paths: Mapping[str, str], identify: Callable[[str], str | None]) -> Mapping[str, str]:
    return {identity: path for name, path in paths.items() if (identity := identify(name)) is not None}

"""What pods had to wait for: CPU beyond their limits (throttling), and any resource (pressure, cgroup v2 only).

Each pod is read every `STALL_TICKS` ticks, by turns, and a new one at once. All of it is counters, which lose nothing
by being read rarely. The files are opened for each reading: kept open they would cost more memory than they save time.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from koordlet.collectors import pressure_files
from koordlet.collectors.cgroup import cpu_stat
from koordlet.collectors.cgroup.cpu_stat import CpuPeriods
from koordlet.collectors.cgroup.discovery import FollowedGroups
from koordlet.collectors.cgroup.layout import CgroupLayout
from koordlet.collectors.open_files import CachedFile, DescriptorBudget
from koordlet.collectors.statistics import CollectStatistics
from koordlet.samples import NoData

_T = TypeVar("_T")

STALL_TICKS = 30
"""As often as predictions learn; costs about a tenth of reading the usage."""

_THROTTLING, _PRESSURE = "pod throttling", "pod pressure"
_ABSENT = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)
"""The group ended, or counts no pressure (cgroup.pressure = 0): nothing is at fault."""
_KEEP_NONE = DescriptorBudget(0)


@dataclass(frozen=True, slots=True)
class PodStall:
    """What one pod waited for."""

    throttled_ratio: float | None = None
    """Share of the periods since the reading before in which the pod, or the worst of its containers, was throttled,
    0..1. None: not known, or hardly a period passed (no limit, or no work)."""
    stalled_seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Resource -> kind -> seconds stalled since the pod's group was made; empty where the kernel counts none."""
    no_data: tuple[NoData, ...] = ()


class PodPressure:
    """Follows the counters of every pod."""

    def __init__(self, statistics: CollectStatistics) -> None:
        self.pods: dict[str, PodStall] = {}
        """By UID, each as of its last reading."""
        self._statistics = statistics
        self._periods: dict[str, dict[str, tuple[int, CpuPeriods]]] = {}
        """Pod UID -> group -> inode and counters of the last reading."""
        self._layout: CgroupLayout | None = None
        self._throttling_mount: Path | None = None
        self._pressure_mount: Path | None = None
        self._ticks = 0

    def collect(self, groups: FollowedGroups | None) -> tuple[NoData, ...]:
        """Read the pods whose turn it is; return what was wrong at the last reading of any."""
        found = groups.pods if groups else {}
        if groups is not None and (groups.layout != self._layout or self._ticks % STALL_TICKS == 0):
            self._probe(groups.layout)
        for gone in self.pods.keys() - found.keys():
            del self.pods[gone]
            self._periods.pop(gone, None)
        self._ticks += 1
        due = [
            uid for turn, uid in enumerate(found, start=self._ticks) if turn % STALL_TICKS == 0 or uid not in self.pods
        ]
        self.pods |= dict.fromkeys(due, PodStall())
        if self._throttling_mount is not None:
            with self._statistics.timed(_THROTTLING):
                for uid in due:
                    self._read_throttling(self._throttling_mount, uid, found[uid])
        if self._pressure_mount is not None:
            with self._statistics.timed(_PRESSURE):
                for uid in due:
                    self._read_pressure(self._pressure_mount, uid, found[uid][0])
        return tuple(no_data for pod in self.pods.values() for no_data in pod.no_data)

    def _probe(self, layout: CgroupLayout) -> None:
        """Look at the group above all pods for what this kernel counts. In v1, limits may have a mount of their own."""
        self._layout = layout
        root = layout.roots_of_pods[0]
        self._throttling_mount = _first(
            (layout.cpu.path, layout.cpu.path.parent / "cpu"),
            lambda mount: cpu_stat.cpu_periods((mount / root / cpu_stat.FILE).read_bytes()),
        )
        self._pressure_mount = _first(
            (layout.cpu.path,),
            lambda mount: pressure_files.stalled_seconds((mount / root / "cpu.pressure").read_bytes()),
        )
        self._statistics.source(_THROTTLING).supported = self._throttling_mount is not None
        self._statistics.source(_PRESSURE).supported = self._pressure_mount is not None

    def _read_throttling(self, mount: Path, uid: str, groups: Iterable[str]) -> None:
        before, now = self._periods.get(uid, {}), {}
        for group in groups:
            read = self._read(_THROTTLING, uid, f"{mount}/{group}/{cpu_stat.FILE}", cpu_stat.cpu_periods)
            if read is not None:
                now[group] = read
        self._periods[uid] = now
        ratios = (
            cpu_stat.throttled_ratio(before[group][1], periods)
            for group, (inode, periods) in now.items()
            if group in before and before[group][0] == inode
        )
        self.pods[uid] = replace(self.pods[uid], throttled_ratio=cpu_stat.worst(ratios))

    def _read_pressure(self, mount: Path, uid: str, group: str) -> None:
        totals = {}
        for resource in pressure_files.RESOURCES:
            path = f"{mount}/{group}/{resource}.pressure"
            read = self._read(_PRESSURE, uid, path, pressure_files.stalled_seconds)
            if read is not None:
                totals[resource] = read[1]
        self.pods[uid] = replace(self.pods[uid], stalled_seconds=totals)

    def _read(self, source: str, uid: str, path: str, parse: Callable[[bytes], _T]) -> tuple[int, _T] | None:
        """Read one file; return the inode and what is in it."""
        file = CachedFile(path, _KEEP_NONE)
        try:
            text = file.read()
            return file.inode, parse(text)
        except OSError as problem:
            if problem.errno in _ABSENT:
                return None
            reason = problem.strerror or str(problem)
        except ValueError as problem:
            reason = str(problem)
        self._statistics.failed(source)
        stall = self.pods[uid]
        self.pods[uid] = replace(stall, no_data=(*stall.no_data, NoData(source, path, reason)))
        return None


def _first(mounts: Iterable[Path], read: Callable[[Path], object]) -> Path | None:
    """Return the first mount that `read` can make sense of."""
    for mount in mounts:
        try:
            read(mount)
        except (OSError, ValueError):
            continue
        return mount
    return None

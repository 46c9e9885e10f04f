"""Throttling of pods by their CPU limits, and pressure of pods: time waited for any resource (cgroup v2 only).

Each pod is read every `POD_PRESSURE_TICKS` ticks, in turns, and a new pod at once. The values are counters, so rare
reading loses nothing. The files are opened for each reading: open files would cost more memory than they save time.
A group without a limit, or without work, counts no periods: its throttling is read in every `UNLIMITED_TURNS`-th turn
only. Of the containers of Guaranteed pods that request whole CPUs the cpuset is read as well: the kubelet's static CPU
manager may give them CPUs of their own.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Self, TypeVar

from api_types.kubernetes import cpu_list
from koordlet.collectors import node_pressure
from koordlet.collectors.cgroup import discovery, files
from koordlet.collectors.cgroup.discovery import CgroupLayout
from koordlet.collectors.cgroup.files import CgroupVersion, CpuPeriods
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.interface import NO_SERIES, Collector, Host, MeasuredValue, MetricDescription, Tick
from koordlet.collectors.open_files import CachedFile, DescriptorBudget
from koordlet.samples import NoData, Resource, SeriesKey, UsageSample

_T = TypeVar("_T")

POD_PRESSURE_TICKS: Final = 60
"""Ticks between two readings of a pod, as between two reports. Costs about a tenth of reading the usage."""

UNLIMITED_TURNS: Final = 5
"""Turns between two readings of a group that had counted no periods."""

_THROTTLING, _PRESSURE, _CPUS = "pod throttling", "pod pressure", "pod CPUs"
_ABSENT = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)
"""Not a fault: the group ended, or counts no pressure (cgroup.pressure = 0)."""
_NO_DESCRIPTORS = DescriptorBudget(0)

THROTTLED_RATIO: Final = MetricDescription(
    "koordlet_pod_throttled_ratio",
    "Share of CPU periods in which a pod, or the worst of its containers, had used up its limit.",
    is_of_pods=True,
)
WAITED_SECONDS: Final = MetricDescription(
    "koordlet_pod_stalled_seconds",
    "Time that some or all tasks of a pod waited for a resource.",
    ("resource", "kind"),
    is_counter=True,
    is_of_pods=True,
)


@dataclass(frozen=True, slots=True)
class PodWaits:
    """Throttling and pressure of one pod."""

    throttled_ratio: float | None = None
    """Share of the periods since the previous reading in which the pod, or the worst of its containers, was throttled,
    0..1. None: unknown, or too few periods passed (no limit, or no work)."""
    waited_seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Resource -> kind -> seconds waited since the pod's group was created; empty where the kernel counts none."""
    cpus: Mapping[str, int] = field(default_factory=dict)
    """Container id -> number of CPUs that it may run on, where these are not all; of Guaranteed pods only."""
    no_data: tuple[NoData, ...] = ()


class _Reading(NamedTuple):
    inode: int
    periods: CpuPeriods
    is_first: bool
    """Whether there is no reading before it: a new group may have a limit and no work yet."""


class PodPressure(Collector):
    """Throttling and pressure of every pod, from reading to reading."""

    name: ClassVar[str] = "pod pressure and throttling"
    metrics: ClassVar[Sequence[MetricDescription]] = (WAITED_SECONDS, THROTTLED_RATIO)

    def __init__(self, statistics: CollectStatistics) -> None:
        self.pods: dict[str, PodWaits] = {}
        """Pod UID -> values of its last reading."""
        self._statistics = statistics
        self._periods: dict[str, dict[str, _Reading]] = {}
        """Pod UID -> group -> its last reading."""
        self._due_ticks: dict[str, int] = {}
        """Pod UID -> tick that reads it again."""
        self._layout: CgroupLayout | None = None
        self._throttling_mount: Path | None = None
        self._pressure_mount: Path | None = None
        self._ticks = 0

    @classmethod
    def on(cls, host: Host) -> Self:
        """Construct the collector for a host."""
        return cls(host.statistics)

    def collect(self, tick: Tick) -> Mapping[SeriesKey, UsageSample]:
        """Read the pods that are due, and add the problems of the last reading of each pod to the tick."""
        groups_by_pod = tick.groups.pods if tick.groups else {}
        if tick.groups and (tick.groups.layout != self._layout or self._ticks % POD_PRESSURE_TICKS == 0):
            self._probe(tick.groups.layout)
        for gone in self.pods.keys() - groups_by_pod.keys():
            del self.pods[gone], self._due_ticks[gone]
            self._periods.pop(gone, None)
        self._ticks += 1
        due = [uid for uid in groups_by_pod if self._due_ticks.get(uid, 0) <= self._ticks]
        for uid in due:  # pods that are read for the first time together take different turns
            is_known = uid in self._due_ticks
            wait = POD_PRESSURE_TICKS if is_known else 1 + len(self._due_ticks) % POD_PRESSURE_TICKS
            self._due_ticks[uid] = self._ticks + wait
        self.pods |= dict.fromkeys(due, PodWaits())
        if self._throttling_mount is not None:
            with self._statistics.timed(_THROTTLING):
                for uid in due:
                    self._read_throttling(self._throttling_mount, uid, groups_by_pod[uid])
        if self._pressure_mount is not None:
            with self._statistics.timed(_PRESSURE):
                for uid in due:
                    self._read_pressure(self._pressure_mount, uid, groups_by_pod[uid][0])
        for uid in due:
            self._read_cpus(uid, tick, *groups_by_pod[uid])
        tick.no_data += [no_data for pod in self.pods.values() for no_data in pod.no_data]
        return NO_SERIES

    def measurements(self, metric: MetricDescription) -> Iterable[MeasuredValue]:
        """Return the values of every pod as of its last reading."""
        pods = list(self.pods.items())  # the thread of a scrape reads while a tick may add pods
        if metric is THROTTLED_RATIO:
            return [
                MeasuredValue(waits.throttled_ratio, pod_uid=uid)
                for uid, waits in pods
                if waits.throttled_ratio is not None
            ]
        return [
            MeasuredValue(seconds, (resource, kind), uid)
            for uid, waits in pods
            for resource, kinds in waits.waited_seconds.items()
            for kind, seconds in kinds.items()
        ]

    def _probe(self, layout: CgroupLayout) -> None:
        """Detect in the group above all pods what this kernel counts. In v1, limits may have a mount of their own."""
        self._layout = layout
        root = layout.roots_of_pods[0]
        self._throttling_mount = _first(
            (layout.cpu.path, layout.cpu.path.parent / "cpu"),
            lambda mount: files.cpu_periods((mount / root / files.CPU_STAT).read_bytes()),
        )
        self._pressure_mount = _first(
            (layout.cpu.path,), lambda mount: node_pressure.waited_seconds((mount / root / "cpu.pressure").read_bytes())
        )
        self._statistics.sources[_THROTTLING].supported = self._throttling_mount is not None
        self._statistics.sources[_PRESSURE].supported = self._pressure_mount is not None

    def _read_throttling(self, mount: Path, uid: str, groups: Iterable[str]) -> None:
        before, now = self._periods.get(uid, {}), {}
        reads_all = self._ticks // POD_PRESSURE_TICKS % UNLIMITED_TURNS == 0
        for group in groups:
            reading_before = before.get(group)
            if not reads_all and reading_before and not (reading_before.is_first or reading_before.periods.periods):
                now[group] = reading_before
                continue
            read = self._read(_THROTTLING, uid, f"{mount}/{group}/{files.CPU_STAT}", files.cpu_periods)
            if read is not None:
                now[group] = _Reading(*read, is_first=reading_before is None)
        self._periods[uid] = now
        ratios = (
            files.throttled_ratio(before[group].periods, reading.periods)
            for group, reading in now.items()
            if group in before and before[group].inode == reading.inode
        )
        self.pods[uid] = replace(self.pods[uid], throttled_ratio=files.worst(ratios))

    def _read_pressure(self, mount: Path, uid: str, group: str) -> None:
        totals = {}
        for resource in node_pressure.RESOURCES:
            path = f"{mount}/{group}/{resource}.pressure"
            read = self._read(_PRESSURE, uid, path, node_pressure.waited_seconds)
            if read is not None:
                totals[resource] = read[1]
        self.pods[uid] = replace(self.pods[uid], waited_seconds=totals)

    def _read_cpus(self, uid: str, tick: Tick, group: str, *containers: str) -> None:
        if self._layout is None or discovery.is_qos_class(group.rpartition("/")[0].rpartition("/")[2]):
            return
        mount, file = self._layout.cpu.path, "cpuset.cpus.effective"
        if self._layout.cpu.version is CgroupVersion.V1:
            mount, file = mount.parent / "cpuset", "cpuset.cpus"
        cpus = {}
        for container in containers:
            identity = discovery.container_id(container.rpartition("/")[2])
            if identity is None or (tick.named_containers is not None and not tick.named_containers.get(identity)):
                continue  # has no CPUs of its own
            read = self._read(_CPUS, uid, f"{mount}/{container}/{file}", lambda text: cpu_list.count(text.decode()))
            if read is not None and read[1] != tick.cpu_count:
                cpus[identity] = read[1]
        if cpus:
            self.pods[uid] = replace(self.pods[uid], cpus=cpus)

    def _read(self, source: str, uid: str, path: str, parse: Callable[[bytes], _T]) -> tuple[int, _T] | None:
        """Return the inode and the parsed content of a file, None where it has no data."""
        file = CachedFile(path, _NO_DESCRIPTORS)
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
        waits = self.pods[uid]
        self.pods[uid] = replace(waits, no_data=(*waits.no_data, NoData(source, path, reason)))
        return None


def container_cpus(collectors: Iterable[Collector]) -> dict[str, int]:
    """Return the number of CPUs of each container of the Guaranteed pods, by its id."""
    pods = (pod for collector in collectors if isinstance(collector, PodPressure) for pod in collector.pods.values())
    return {identity: count for pod in pods for identity, count in pod.cpus.items()}


def waits(collectors: Iterable[Collector], resource: Resource) -> dict[str, float]:
    """Return the seconds in which a task of each pod waited for a resource, by UID; empty where none are counted."""
    return {
        measured.pod_uid: measured.value
        for collector in collectors
        if WAITED_SECONDS in collector.metrics
        for measured in collector.measurements(WAITED_SECONDS)
        if measured.labels == (resource.value, "some")
    }


def _first(mounts: Iterable[Path], read: Callable[[Path], object]) -> Path | None:
    for mount in mounts:
        try:
            read(mount)
        except (OSError, ValueError):
            continue
        return mount
    return None

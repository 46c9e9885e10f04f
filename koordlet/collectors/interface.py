"""Interface of a collector, and the tick that collectors fill in.

A collector is a class in a module of this package and one line in `snapshot.COLLECTORS`. It has three outputs:

- usage of node and pods, written to the `Tick`, from which later collectors and the snapshot take it;
- series of its own, returned by `collect` and cached in a ring of the collector's own (`ring`);
- values for /metrics, returned by `measurements` when a scrape reads them, so that a tick does no work for them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Protocol, Self

from koordlet.collectors.cgroup.discovery import FollowedGroups
from koordlet.collectors.host import CollectStatistics, HostRoot
from koordlet.samples import NoData, SeriesKey, UsageSample


class RingShape(NamedTuple):
    """Size of the ring that caches the series of one collector."""

    interval_ticks: int
    """Ticks between two samples of a series."""
    max_series: int


class MetricDescription(NamedTuple):
    """A metric of /metrics."""

    name: str
    documentation: str
    labels: tuple[str, ...] = ()
    """Labels besides `namespace` and `pod`."""
    is_counter: bool = False
    is_of_pods: bool = False
    """Whether each value belongs to a pod, and has the labels `namespace` and `pod` first."""


class MeasuredValue(NamedTuple):
    """One value of a metric."""

    value: float
    labels: tuple[str, ...] = ()
    pod_uid: str = ""
    """UID in the name of the pod's cgroup, for a metric of pods."""


@dataclass(frozen=True, slots=True)
class Host:
    """Arguments for the construction of collectors."""

    root: HostRoot
    statistics: CollectStatistics
    monotonic_ns: Callable[[], int]


@dataclass(slots=True)
class Tick:
    """Inputs of one tick, and the usage that the collectors have measured in it so far."""

    at_seconds: float
    """Unix time of the samples."""
    cpu_count: int | None = None
    """CPUs of the machine, an upper bound of every rate; None sets no bound."""
    machine_bytes: int | None = None
    """Memory of the machine, an upper bound of every usage beside its swap; None sets no bound."""
    named_containers: Mapping[str, int] | None = None
    """Ids of the containers to follow, with the whole CPUs that they request; None follows every container."""
    bound_pods: Container[str] | None = None
    """UIDs of the pods bound to the node; None while they are not known."""
    counts_page_cache: bool = False
    """Whether page cache counts as used memory."""
    swap_bytes: int = 0
    """Size of the machine's swap: what is swapped out is read only where there is one."""
    node: UsageSample | None = None
    system: UsageSample | None = None
    """Usage of the node outside of pods; None unless node and all pods were measured."""
    pods: Mapping[str, UsageSample] = field(default_factory=dict)
    unmeasured_pods: frozenset[str] = frozenset()
    pods_in_system: frozenset[str] = frozenset()
    """Pods without a sample for so long that their usage is part of `system`."""
    groups: FollowedGroups | None = None
    """Groups of all pods and their containers; None where no group could be found."""
    are_pods_complete: bool = False
    """Whether `pods` is all that ran in pods since the tick before, apart from `pods_in_system`."""
    no_data: list[NoData] = field(default_factory=list)


NO_SERIES: Final[Mapping[SeriesKey, UsageSample]] = {}
"""Result of a collector that has no series of its own, or none in this tick."""


class Collector(Protocol):
    """One source of usage. Collectors subclass this protocol, which defines the outputs that they do not have."""

    name: ClassVar[str]
    """Name of the source."""
    ring: ClassVar[RingShape | None] = None
    """Ring for the series that `collect` returns; None for a collector without series of its own."""
    metrics: ClassVar[Sequence[MetricDescription]] = ()
    """Metrics that `measurements` returns values of."""

    @classmethod
    def on(cls, host: Host) -> Self:
        """Construct the collector for a host."""

    def collect(self, tick: Tick) -> Mapping[SeriesKey, UsageSample]:
        """Read what is due, add usage and problems to the tick, and return the collector's own series."""

    def measurements(self, metric: MetricDescription) -> Iterable[MeasuredValue]:  # noqa: ARG002  # has no metric
        """Return the newest values of one of `metrics`. Called from another thread than `collect`."""
        return ()

    def close(self) -> None:  # most collectors keep no file open
        """Close every file."""

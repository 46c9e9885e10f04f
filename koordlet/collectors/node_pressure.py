"""Pressure of the machine: time that its tasks waited for CPU, memory or I/O, from /proc/pressure.

The kernel's pressure files (PSI):

    some avg10=1.52 avg60=0.75 avg300=0.21 total=15322021      at least one task waited
    full avg10=0.00 avg60=0.00 avg300=0.00 total=9120          all tasks that had work waited

The totals are counters in microseconds, so rare reading loses nothing. The averages are ignored, because any average
follows from two totals. Kernels before 5.13 print no `full` line for cpu.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Self

from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.interface import NO_SERIES, Collector, Host, MeasuredValue, MetricDescription, Tick
from koordlet.samples import NoData, SeriesKey, UsageSample

RESOURCES: Final = ("cpu", "memory", "io")
"""Resources with a file, `<resource>` below /proc/pressure and `<resource>.pressure` in a group of v2."""


_LINE = re.compile(rb"^(some|full) (?:avg\d+=[\d.]+ )+total=(\d+)$", re.MULTILINE)


def waited_seconds(text: bytes) -> Mapping[str, float]:
    """Parse a pressure file: kind -> seconds waited since the group was created (for the machine, since boot)."""
    seconds_by_kind = {kind.decode(): int(total) / 1e6 for kind, total in _LINE.findall(text)}
    if "some" not in seconds_by_kind:
        raise ValueError(f"pressure file has no total of `some`, got {text[:40]!r}")
    return seconds_by_kind


_SOURCE: Final = "node pressure"
_UNSUPPORTED = (errno.ENOENT, errno.EOPNOTSUPP)
"""ENOENT: the kernel has no pressure files. EOPNOTSUPP: pressure was disabled at boot."""

NODE_PRESSURE_TICKS: Final = 10
"""Ticks between two readings. The totals are counters, so nothing is lost, and scrapes are not more frequent."""

WAITED_SECONDS: Final = MetricDescription(
    "koordlet_node_stalled_seconds",
    "Time that some or all tasks of the machine waited for a resource.",
    ("resource", "kind"),
    is_counter=True,
)


class NodePressure(Collector):
    """Totals of the three pressure files since boot."""

    name: ClassVar[str] = _SOURCE
    metrics: ClassVar[Sequence[MetricDescription]] = (WAITED_SECONDS,)

    def __init__(self, proc_root: Path, statistics: CollectStatistics) -> None:
        self._folder = proc_root / "pressure"
        self._statistics = statistics
        self._ticks = 0
        self.no_data: tuple[NoData, ...] = ()
        self.waited_seconds: Mapping[str, Mapping[str, float]] = {}
        """Resource -> kind -> seconds waited since boot; without the resources that have no data."""

    @classmethod
    def on(cls, host: Host) -> Self:
        """Construct the collector for a host."""
        return cls(host.root.proc_root, host.statistics)

    def collect(self, tick: Tick) -> Mapping[SeriesKey, UsageSample]:
        """Read the files when it is time, and add the problems of the last reading to the tick."""
        if self._ticks % NODE_PRESSURE_TICKS == 0:
            with self._statistics.timed(_SOURCE):
                self._read()
        self._ticks += 1
        tick.no_data += self.no_data
        return NO_SERIES

    def measurements(self, metric: MetricDescription) -> Iterable[MeasuredValue]:  # noqa: ARG002  # there is only one
        """Return the time that tasks waited, by resource and kind."""
        return [
            MeasuredValue(seconds, (resource, kind))
            for resource, kinds in self.waited_seconds.items()
            for kind, seconds in kinds.items()
        ]

    def _read(self) -> None:
        totals, wrong, absent = {}, [], 0
        for resource in RESOURCES:
            path = self._folder / resource
            try:
                totals[resource] = waited_seconds(path.read_bytes())
            except OSError as problem:
                if problem.errno in _UNSUPPORTED:
                    absent += 1
                else:
                    wrong.append(NoData(_SOURCE, str(path), problem.strerror or str(problem)))
            except ValueError as problem:
                wrong.append(NoData(_SOURCE, str(path), str(problem)))
        self._statistics.sources[_SOURCE].supported = absent < len(RESOURCES)
        self._statistics.failed(_SOURCE, len(wrong))
        self.no_data = tuple(wrong)
        self.waited_seconds = totals

"""How long the whole machine stood still for want of CPU, memory or I/O, from /proc/pressure."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

from koordlet.collectors import pressure_files
from koordlet.collectors.statistics import CollectStatistics
from koordlet.samples import NoData

_SOURCE = "node pressure"
_UNSUPPORTED = (errno.ENOENT, errno.EOPNOTSUPP)
"""No such file: a kernel without pressure. Operation not supported: it was switched off at boot."""

PRESSURE_TICKS = 10
"""The files are read every so many ticks: totals lose nothing by it, and nobody scrapes more often."""


class NodePressure:
    """Reads the three files. Totals start at boot."""

    def __init__(self, proc_root: Path, statistics: CollectStatistics) -> None:
        self._folder = proc_root / "pressure"
        self._statistics = statistics
        self._ticks = 0
        self.no_data: tuple[NoData, ...] = ()
        self.stalled_seconds: Mapping[str, Mapping[str, float]] = {}
        """Resource -> kind -> seconds stalled since boot; without the resources that have no data."""

    def collect(self) -> tuple[NoData, ...]:
        """Read the files when it is time; return what was wrong with them at the last reading."""
        if self._ticks % PRESSURE_TICKS == 0:
            with self._statistics.timed(_SOURCE):
                self._read()
        self._ticks += 1
        return self.no_data

    def _read(self) -> None:
        totals, wrong, absent = {}, [], 0
        for resource in pressure_files.RESOURCES:
            path = self._folder / resource
            try:
                totals[resource] = pressure_files.stalled_seconds(path.read_bytes())
            except OSError as problem:
                if problem.errno in _UNSUPPORTED:
                    absent += 1
                else:
                    wrong.append(NoData(_SOURCE, str(path), problem.strerror or str(problem)))
            except ValueError as problem:
                wrong.append(NoData(_SOURCE, str(path), str(problem)))
        self._statistics.source(_SOURCE).supported = absent < len(pressure_files.RESOURCES)
        self._statistics.failed(_SOURCE, len(wrong))
        self.no_data = tuple(wrong)
        self.stalled_seconds = totals

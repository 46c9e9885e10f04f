"""What collecting costs and how often it fails, as plain numbers that an exporter of metrics reads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class SourceStatistics:
    """Of one source, since the process began."""

    reads: int = 0
    """Times the source was read, whatever came of it."""
    failures: int = 0
    """Files of the source that gave no value, gone groups not counted."""
    last_seconds: float = 0.0
    """Wall time of the last read of the whole source."""
    total_seconds: float = 0.0
    """Wall time of all reads."""
    supported: bool = True
    """Whether the machine has what the source reads; where it has not, nothing is wrong and nothing is read."""


@dataclass(slots=True)
class CollectStatistics:
    """Of all collectors together."""

    sources: dict[str, SourceStatistics] = field(default_factory=dict)
    groups: int = 0
    """Pods and containers followed now."""
    descriptors_kept: int = 0
    """Files kept open now; two a group unless the process may not open that many."""

    @contextmanager
    def timed(self, source: str) -> Iterator[None]:
        """Count one read of a source and the time it takes."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            statistics = self.source(source)
            statistics.reads += 1
            statistics.last_seconds = time.perf_counter() - begin
            statistics.total_seconds += statistics.last_seconds

    def failed(self, source: str, failures: int = 1) -> None:
        """Count reads that gave no value."""
        self.source(source).failures += failures

    def source(self, source: str) -> SourceStatistics:
        """Return the statistics of one source, zeros at first."""
        return self.sources.setdefault(source, SourceStatistics())

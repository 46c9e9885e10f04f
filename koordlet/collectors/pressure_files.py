"""Parser of the kernel's pressure files (PSI): time that tasks waited for a resource.

    some avg10=1.52 avg60=0.75 avg300=0.21 total=15322021      at least one task waited
    full avg10=0.00 avg60=0.00 avg300=0.00 total=9120          all tasks that had work waited

The totals are counters in microseconds, so rare reading loses nothing. The averages are ignored, because any average
follows from two totals. Kernels before 5.13 print no `full` line for cpu.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

RESOURCES: Final = ("cpu", "memory", "io")
"""Resources with a file, `<resource>` below /proc/pressure and `<resource>.pressure` in a group of v2."""

KINDS: Final = ("some", "full")

_LINE = re.compile(rb"^(some|full) (?:avg\d+=[\d.]+ )+total=(\d+)$", re.MULTILINE)


def waited_seconds(text: bytes) -> Mapping[str, float]:
    """Parse a pressure file: kind -> seconds waited since the group was created (for the machine, since boot)."""
    seconds_by_kind = {kind.decode(): int(total) / 1e6 for kind, total in _LINE.findall(text)}
    if "some" not in seconds_by_kind:
        raise ValueError(f"pressure file has no total of `some`, got {text[:40]!r}")
    return seconds_by_kind

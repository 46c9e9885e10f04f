"""Parse lists of CPUs as Linux and the kubelet write them: "0-3,8".

Nodes write such lists into annotations, so text and numbers are bounded, and a list costs work in proportion to its
text: ranges are merged, their numbers are not enumerated.
"""

from __future__ import annotations

import re
from typing import Final

MOST_CHARACTERS: Final = 4096
"""Longest list, which is also the largest that the kernel prints into one page."""
MOST_CPUS: Final = 8192
"""Largest number of CPUs for which Linux is built."""

_PART: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
"""One number, or the first and the last of a range."""
_QUOTED: Final = 40  # characters of a malformed list in its error message


def ranges(text: str) -> list[range]:
    """Return the CPUs as ranges in order, none of which touch; none for an empty text.

    Raises ValueError, whose message names the fault.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"a list of CPUs has {len(text)} characters, want at most {MOST_CHARACTERS}")
    merged: list[range] = []
    for part in sorted(map(_part, text.split(",") if text.strip() else ()), key=lambda part: part.start):
        if merged and part.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, part.stop))
        else:
            merged.append(part)
    return merged


def count(text: str) -> int:
    """Return the number of CPUs in a list. Raises ValueError, whose message names the fault."""
    return sum(map(len, ranges(text)))


def _part(text: str) -> range:
    match = _PART.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{_quoted(text)} in a list of CPUs, want a list like 0-3,8")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(f"{_quoted(text)} in a list of CPUs ends before it begins, want a range like 0-3")
    if last >= MOST_CPUS:
        raise ValueError(f"{_quoted(text)} in a list of CPUs, want numbers below {MOST_CPUS}")
    return range(first, last + 1)


def _quoted(text: str) -> str:
    return repr(text[:_QUOTED])

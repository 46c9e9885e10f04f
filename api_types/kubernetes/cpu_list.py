"""Parse lists of CPUs as Linux and the kubelet write them: "0-3,8"."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
"""One number, or the first and the last of a range. Linux supports fewer than 10,000 CPUs, so five digits suffice."""


def parse(text: str) -> frozenset[int]:
    """Return the numbers of the CPUs; empty for an empty text. Raises ValueError, whose message names the fault."""
    found: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{text[:40]!r} is not a list of CPUs, want one like 0-3,8")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{text[:40]!r} has a range that ends before it begins")
        found.update(range(first, last + 1))
    return frozenset(found)

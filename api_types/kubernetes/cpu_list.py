"""Lists of CPUs as Linux and the kubelet write them: "0-3,8"."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
"""One number, or the first and last of a range; five digits are ten times what Linux can be built for."""


def parse(text: str) -> frozenset[int]:
    """Numbers of the CPUs; none for an empty text. ValueError says what is wrong."""
    found: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{text[:40]!r} is no list of CPUs like 0-3,8")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{text[:40]!r} has a range that ends before it begins")
        found.update(range(first, last + 1))
    return frozenset(found)

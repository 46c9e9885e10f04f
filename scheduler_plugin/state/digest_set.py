"""Set of the digests of all keys of a list, packed: at 450,000 pods a `set` takes 30 MiB, half of it for the integers.

Every list allocates that much, and not all of it is returned: the integers lie between objects that stay, and after one
large block was freed, malloc keeps others of its size for the next time.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, MutableSet
from typing import Final

_BUCKETS: Final = 8192  # at 450,000 digests 55 in each, and 1 us for a lookup


class DigestSet(MutableSet[int]):
    """A set of integers of 64 bits, as `hash` returns them; 10 bytes each."""

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]

    def add(self, value: int) -> None:
        """Add a digest."""
        bucket = self._buckets[value % _BUCKETS]
        if value not in bucket:
            bucket.append(value)

    def discard(self, value: int) -> None:
        """Remove a digest, if it is present."""
        bucket = self._buckets[value % _BUCKETS]
        if value in bucket:
            bucket.remove(value)

    def __contains__(self, value: object) -> bool:
        """Return whether a digest was added."""
        return isinstance(value, int) and value in self._buckets[value % _BUCKETS]

    def __iter__(self) -> Iterator[int]:
        """Iterate over every digest, in no order."""
        return itertools.chain.from_iterable(self._buckets)

    def __len__(self) -> int:
        """Return the number of digests."""
        return sum(map(len, self._buckets))

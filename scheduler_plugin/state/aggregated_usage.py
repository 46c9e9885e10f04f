"""Decode the statistics of a node's usage over windows on their first read.

Few configurations read them, and every report has two dozen. Until the first read they stay encoded; then they are
packed, under keys that all nodes share.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from api_types.kubernetes import pods, times
from scheduler_plugin.state import node_report, vectors
from scheduler_plugin.state.node_report import VectorTable
from scheduler_plugin.state.vectors import Vector

Key = tuple[str, int]
"""Statistic, and window in nanoseconds; 0 is the longest window reported."""

NONE: Final = msgspec.Raw(b"null")
_MOST_SHARED_KEYS: Final = 64
_LONGEST_SHARED_STATISTIC: Final = 16
"""An agent has six statistics of four windows. Keys beyond these bounds would fill the memory that nodes share."""


class _Usage(msgspec.Struct, frozen=True, gc=False):
    resources: pods.QuantityMap | None = None


class _Window(msgspec.Struct, frozen=True, gc=False):
    duration: str = "0s"
    usage: dict[str, _Usage] | None = None


_WINDOWS: Final = msgspec.json.Decoder(list[_Window] | None)


class StatisticsByWindow(Mapping[Key, Vector]):
    """`aggregatedNodeUsages`, decoded on the first read; a malformed one has no entries."""

    __slots__ = ("_document", "_resources", "_table")

    def __init__(self, document: msgspec.Raw, resources: tuple[str, ...]) -> None:
        self._document = bytes(document)  # a copy: the original would keep the whole report alive
        self._resources = resources
        self._table: VectorTable[Key] | None = None

    def __getitem__(self, key: Key) -> Vector:
        """Return the usage of a statistic and window."""
        return self._read()[key]

    def __iter__(self) -> Iterator[Key]:
        """Iterate over every statistic and window."""
        return iter(self._read())

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._read())

    def _read(self) -> VectorTable[Key]:
        if self._table is None:
            self._table = _table(self._document, self._resources)
            self._document = b""
        return self._table


def _table(document: bytes, resources: tuple[str, ...]) -> VectorTable[Key]:
    try:
        windows = _WINDOWS.decode(document) or []
    except (msgspec.DecodeError, RecursionError):
        windows = []
    by_window: dict[Key, list[int]] = {}
    longest: dict[str, int] = {}
    for entry in windows:
        try:
            window = times.duration_nanos(entry.duration)
        except ValueError:
            continue
        for statistic, usage in (entry.usage or {}).items():
            amounts = vectors.amounts(usage.resources, resources) if usage.resources else None
            if amounts is not None:
                by_window[statistic, window] = amounts
                longest[statistic] = max(longest.get(statistic, window), window)
    whole = by_window | {(statistic, 0): by_window[statistic, window] for statistic, window in longest.items()}
    is_shared = len(whole) <= _MOST_SHARED_KEYS and all(len(key[0]) <= _LONGEST_SHARED_STATISTIC for key in whole)
    positions = _positions if is_shared else _positions.__wrapped__
    return VectorTable(positions(tuple(whole)), node_report.packed(whole), len(resources))


@functools.lru_cache(maxsize=256)
def _positions(keys: tuple[Key, ...]) -> Mapping[Key, int]:
    return {key: position for position, key in enumerate(keys)}

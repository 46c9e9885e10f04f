"""Merge what nodes state about a workload, and what is left of it for a new pod of this workload. Pure.

A node states once an hour what its warm pods added. The statistics of a workload are the weighted sum of all
statements, each decayed by its age: the order in which they come does not matter. Usage counts up to the request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api_types.kubernetes import times

CPU_HALF_LIFE_SECONDS: Final = 12 * 3600.0
MEMORY_HALF_LIFE_SECONDS: Final = 24 * 3600.0
PEAK_HALF_LIFE_SECONDS: Final = 7 * 24 * 3600.0
"""Of the largest rise and of the start peak: a workload may start pods, or grow, on one day of the week only."""
EXPIRY_SECONDS: Final = 3 * 24 * 3600.0
MOST_ENTRIES: Final = 500
"""Entries of a namespace."""
MOST_POD_HOURS: Final = 1000.0
"""Where the count of pod-hours ends: it only shows that there were enough of them."""
_VERSION: Final = 1
_LARGEST: Final = 1e35
_DIGITS: Final = 4
_KEY_DIGITS: Final = 15
"""60 bits of a digest: with 50,000 workloads two have the same key with a probability of 1e-9."""


class Unreadable(Exception):
    """A stored document is of another version, or has values that no merge of statements gives."""


class Usage(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Decayed statistics of one resource, in cores or bytes; `weight` in pod-hours."""

    weight: float = 0.0
    mean: float = 0.0
    m2: float = 0.0
    """Sum of squared deviations."""
    rise: float = 0.0
    """Of memory: largest rise within a horizon."""
    start_peak: float = 0.0
    """Largest usage of a pod in its first 10 minutes; 0 where none started."""
    request: float = 0.0

    @property
    def stdev(self) -> float:
        """Return the standard deviation."""
        return float((self.m2 / self.weight) ** 0.5) if self.weight > 0 else 0.0

    def decayed(self, seconds: float, half_life_seconds: float) -> Usage:
        """Return what is left after some time."""
        share, peak_share = 0.5 ** (seconds / half_life_seconds), 0.5 ** (seconds / PEAK_HALF_LIFE_SECONDS)
        return Usage(
            self.weight * share, self.mean, self.m2 * share, self.rise * peak_share, self.start_peak * peak_share,
            self.request,
        )  # fmt: skip

    def plus(self, other: Usage) -> Usage:
        """Return both together, with the larger request (parallel variance: Chan, Golub, LeVeque 1979)."""
        weight = self.weight + other.weight
        if weight <= 0:
            return self
        apart = other.mean - self.mean
        return Usage(
            weight,
            self.mean + apart * other.weight / weight,
            self.m2 + other.m2 + apart * apart * self.weight * other.weight / weight,
            max(self.rise, other.rise),
            max(self.start_peak, other.start_peak),
            max(self.request, other.request),
        )


class Statement(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """What the warm pods of a workload added on one node since it last stated them; the weight is the pod-hours."""

    pod_hours: float
    cpu: Usage
    memory: Usage


class Entry(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """History of one workload, as of its newest statement."""

    time: int
    """Of the newest statement, in Unix seconds."""
    pod_hours: float
    """All that were ever merged, up to MOST_POD_HOURS."""
    cpu: Usage
    memory: Usage

    def is_expired(self, now_seconds: float) -> bool:
        """Check whether the last statement is too old."""
        return now_seconds - self.time > EXPIRY_SECONDS

    def weight(self, now_seconds: float) -> float:
        """Return what is left of the pod-hours, for the choice of the entries that are kept."""
        return float(self.cpu.weight * 0.5 ** ((now_seconds - self.time) / CPU_HALF_LIFE_SECONDS))

    def to_wire(self, pod: str) -> dict[str, Any]:
        """Return the entry of `spec.workloadHistory` for a pod, which is named by a digest."""
        return {
            "pod": pod,
            "updateTime": times.format_epoch(self.time),
            "podHours": _rounded(self.pod_hours),
            "cpu": _wire_usage(self.cpu),
            "memory": _wire_usage(self.memory) | {"rise": _rounded(self.memory.rise)},
        }


def key(owner_uid: str, ordinal: int | None = None) -> str:
    """Return the key of a workload in its namespace: its top controller, of a StatefulSet one pod of it."""
    digest = hashlib.sha256(owner_uid.encode(errors="replace")).hexdigest()[:_KEY_DIGITS]
    return digest if ordinal is None else key(f"{digest}/{ordinal}")


def merge(entry: Entry | None, statement: Statement, time: int) -> Entry:
    """Merge a statement, made at `time` (Unix seconds), into the entry of its workload.

    The request is that of the newest statement.
    """
    stated = Entry(
        time,
        min(max(statement.pod_hours, 0.0), MOST_POD_HOURS),
        _usage(statement.cpu, statement.pod_hours),
        _usage(statement.memory, statement.pod_hours),
    )
    if entry is None or entry.is_expired(time):
        return stated
    newest = max(entry.time, time)
    cpu, memory = (
        before.decayed(newest - entry.time, half_life).plus(added.decayed(newest - time, half_life))
        for before, added, half_life in (
            (entry.cpu, stated.cpu, CPU_HALF_LIFE_SECONDS),
            (entry.memory, stated.memory, MEMORY_HALF_LIFE_SECONDS),
        )
    )
    if entry.time != time:
        requested = max(entry, stated, key=lambda each: each.time)
        cpu = msgspec.structs.replace(cpu, request=requested.cpu.request)
        memory = msgspec.structs.replace(memory, request=requested.memory.request)
    return Entry(newest, min(entry.pod_hours + stated.pod_hours, MOST_POD_HOURS), cpu, memory)


def _usage(stated: Usage, pod_hours: float) -> Usage:
    """Return the usage of a statement, up to the request: between 0 and r, the variance is at most mean (r - mean)."""
    weight, request = max(pod_hours, 0.0), max(stated.request, 0.0)

    def clipped(value: float) -> float:
        return min(max(value, 0.0), request)

    mean = clipped(stated.mean)
    m2 = min(max(stated.m2, 0.0), weight * mean * (request - mean))
    return Usage(weight, mean, m2, clipped(stated.rise), clipped(stated.start_peak), request)


def keep_heaviest(entries: Mapping[str, Entry], now_seconds: float, most: int = MOST_ENTRIES) -> dict[str, Entry]:
    """Return the entries of a namespace that are not expired, at most `most`, those of the largest weight."""
    fresh = {name: entry for name, entry in entries.items() if not entry.is_expired(now_seconds)}
    if len(fresh) <= most:
        return fresh
    heaviest = sorted(fresh, key=lambda name: (-fresh[name].weight(now_seconds), name))
    return {name: fresh[name] for name in heaviest[:most]}


class Document(msgspec.Struct, rename="camel", frozen=True):
    """Entries of a namespace as they are stored. Statements made before `time` are in it, or lost."""

    version: int
    namespace: str
    time: int
    """Unix seconds."""
    entries: dict[str, Entry] = {}


def to_json(namespace: str, entries: Mapping[str, Entry], time: int) -> str:
    """Return the entries of a namespace as JSON, at most 300 bytes an entry."""
    rounded = {name: _rounded_entry(entry) for name, entry in entries.items()}
    return msgspec.json.encode(Document(_VERSION, namespace, time, rounded)).decode()


def from_json(text: str) -> Document:
    """Return the stored entries of a namespace. Raises Unreadable."""
    try:
        document = msgspec.json.decode(text, type=Document)
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from error
    if document.version != _VERSION:
        raise Unreadable(f"seen version {document.version}, want {_VERSION}")
    for name, entry in document.entries.items():
        if not _is_possible(entry):
            raise Unreadable(f"entry {name}: seen a negative value, or too many pod-hours")
    return document


def _is_possible(entry: Entry) -> bool:
    values = (value for usage in (entry.cpu, entry.memory) for value in msgspec.structs.astuple(usage))
    return 0 <= entry.pod_hours <= MOST_POD_HOURS and all(0 <= value <= _LARGEST for value in values)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _rounded_entry(entry: Entry) -> Entry:
    cpu, memory = (Usage(*(_rounded(value) for value in msgspec.structs.astuple(usage)))
                   for usage in (entry.cpu, entry.memory))  # fmt: skip
    return Entry(entry.time, _rounded(entry.pod_hours), cpu, memory)


def _wire_usage(usage: Usage) -> dict[str, float]:
    return {
        "mean": _rounded(usage.mean),
        "stdev": _rounded(usage.stdev),
        "startPeak": _rounded(usage.start_peak),
        "request": _rounded(usage.request),
    }

"""The values that flow through the agent: usage samples, snapshots of the node, and keys of series.

Everything in a snapshot belongs to one instant. Differences (system = node - pods) are computed inside one snapshot
only, never across two clocks. A value that could not be measured is missing, with a `NoData` that has the reason; it is
never zero.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import msgspec

Name = Annotated[str, msgspec.Meta(max_length=1024)]
"""A name in a checkpoint; a longer one is refused, as is an amount out of this range."""
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e30)]


class Resource(enum.StrEnum):
    """A measured resource. The position in `RESOURCES` is its index in every array of the agent."""

    CPU = "cpu"
    MEMORY = "memory"


RESOURCES = (Resource.CPU, Resource.MEMORY)


class UsageSample(NamedTuple):
    """Usage at one instant. A rate (CPU) is the mean since the previous snapshot."""

    cpu_cores: float
    memory_bytes: float


class SeriesKind(enum.StrEnum):
    """Subject of a series."""

    __hash__ = str.__hash__  # that of an enum is a call of Python, a thousand times a tick

    NODE = "node"
    SYSTEM = "system"  # node - sum of pods, at least 0
    UNRESERVED_SYSTEM = "unreserved-system"  # S of the formulas: system usage beyond the node's reservation
    CLASS = "class"  # sum over the pods of one priority class
    PROD_AND_UNRESERVED_SYSTEM = "prod-and-unreserved-system"  # prod + S
    POD = "pod"
    NUMA_NODE = "numa-node"
    NUMA_SYSTEM = "numa-system"  # the system's share of a NUMA node


class SeriesKey(NamedTuple):
    """Identity of a series: a kind, and within it a class, pod UID or NUMA node ('' if unique)."""

    kind: SeriesKind
    identity: Name = ""


@functools.lru_cache(maxsize=4096)  # a few days of pods; one object for each also makes look-ups faster
def pod_key(uid: str) -> SeriesKey:
    """Return the key of the series of a pod."""
    return SeriesKey(SeriesKind.POD, uid)


NODE = SeriesKey(SeriesKind.NODE)
SYSTEM = SeriesKey(SeriesKind.SYSTEM)
UNRESERVED_SYSTEM = SeriesKey(SeriesKind.UNRESERVED_SYSTEM)
PROD_AND_UNRESERVED_SYSTEM = SeriesKey(SeriesKind.PROD_AND_UNRESERVED_SYSTEM)


class NumaSample(NamedTuple):
    """Usage of one NUMA node, and its share of the system usage; None where that is unknown."""

    node: UsageSample
    system: UsageSample | None


@dataclass(frozen=True, slots=True)
class NoData:
    """A source without a value: its name, its path, and the reason. Not an error of the agent."""

    source: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Measurements of one tick, all of one instant.

    `pods` is keyed by the UID in the cgroup's name. `system` is None when node or pods could not be measured. The first
    reading of a pod has no rate, so the pod is in `unmeasured_pods`; `system` is None while any pod is in it, because
    its usage would count as system usage. A pod that stays unmeasured moves to `pods_in_system`: its usage then does
    count as system usage, an upper bound, and the rest of the node is measured.
    """

    at_seconds: float
    """Unix time of the sample."""
    node: UsageSample | None
    system: UsageSample | None
    pods: Mapping[str, UsageSample] = field(default_factory=dict)
    unmeasured_pods: frozenset[str] = frozenset()
    pods_in_system: frozenset[str] = frozenset()
    """Pods without a sample for so long that their usage is part of `system`."""
    series: Mapping[str, Mapping[SeriesKey, UsageSample]] = field(default_factory=dict)
    """Name of a collector -> its own series of this tick, such as those of NUMA nodes."""
    no_data: tuple[NoData, ...] = ()

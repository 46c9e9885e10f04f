"""The values that flow through the agent: one usage sample, one snapshot of the node, the key of a series.

Everything in a snapshot belongs to one instant: differences (system = node - pods) are only ever taken inside one
snapshot, never across two clocks (design 3.3). A value that could not be measured is missing, with a `NoData` that
says why; it is never a zero.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Resource(enum.StrEnum):
    """A measured resource. The position in `RESOURCES` is its index in every array of the agent."""

    CPU = "cpu"
    MEMORY = "memory"


RESOURCES = (Resource.CPU, Resource.MEMORY)


class UsageSample(NamedTuple):
    """Usage at one instant. A rate (CPU) is the mean since the snapshot before."""

    cpu_cores: float
    memory_bytes: float


class SeriesKind(enum.StrEnum):
    """What a series follows."""

    NODE = "node"
    SYSTEM = "system"  # node - sum of pods, floored at 0
    UNRESERVED_SYSTEM = "unreserved-system"  # S of design 4.3: system usage beyond what the node reserves
    CLASS = "class"  # sum over the pods of one priority class
    PROD_AND_UNRESERVED_SYSTEM = "prod-and-unreserved-system"  # prod + S
    POD = "pod"
    CONTAINER = "container"
    NUMA_NODE = "numa-node"
    NUMA_SYSTEM = "numa-system"  # the system's share of a NUMA node


class SeriesKey(NamedTuple):
    """Identity of a series: a kind, and within it a class, pod UID, container id or NUMA node ('' if unique)."""

    kind: SeriesKind
    identity: str = ""


NODE = SeriesKey(SeriesKind.NODE)
SYSTEM = SeriesKey(SeriesKind.SYSTEM)
UNRESERVED_SYSTEM = SeriesKey(SeriesKind.UNRESERVED_SYSTEM)
PROD_AND_UNRESERVED_SYSTEM = SeriesKey(SeriesKind.PROD_AND_UNRESERVED_SYSTEM)


class NumaSample(NamedTuple):
    """Usage of one NUMA node, and the part of it that is not the pods'; None where that is not known."""

    node: UsageSample
    system: UsageSample | None


@dataclass(frozen=True, slots=True)
class NoData:
    """A source that gave no value: what was read, at which path, and why it is no data. Not an error of the agent."""

    source: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one tick measured, all of one instant.

    `pods` and `containers` are keyed by the UID in the cgroup's name and by container id; `system` is None when node
    or pods could not be measured. A pod's first reading has no rate, so it is in `unmeasured_pods` and, because its
    usage would otherwise count as system usage, `system` is None while a pod is unmeasured.
    """

    at_seconds: float
    """Unix time of the sample."""
    node: UsageSample | None
    system: UsageSample | None
    pods: Mapping[str, UsageSample] = field(default_factory=dict)
    containers: Mapping[str, UsageSample] = field(default_factory=dict)
    unmeasured_pods: frozenset[str] = frozenset()
    series: Mapping[str, Mapping[SeriesKey, UsageSample]] = field(default_factory=dict)
    """Name of a collector -> the series of its own that it measured in this tick, such as those of NUMA nodes."""
    no_data: tuple[NoData, ...] = ()

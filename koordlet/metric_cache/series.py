"""The predicted series of one snapshot: node, system, priority classes, pods.

A series without a known value at this instant is left out. A class is unknown while one of its pods is unmeasured. The
system is unknown while any pod is (its usage would count as system usage), and is missing in the snapshot then.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.samples import (
    NODE,
    PROD_AND_UNRESERVED_SYSTEM,
    SYSTEM,
    UNRESERVED_SYSTEM,
    SeriesKey,
    SeriesKind,
    Snapshot,
    UsageSample,
    pod_key,
)

CLASSES: Final = (PriorityClass.PROD, PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE)
PROD: Final = SeriesKey(SeriesKind.CLASS, PriorityClass.PROD)


class Reserved(NamedTuple):
    """Resources that the node reserves: its capacity less what it leaves to pods (`node_reservation`)."""

    cpu_cores: float
    memory_bytes: float


def counted_class(priority_class: PriorityClass | None) -> PriorityClass:
    """Return the class to which a pod is charged: Prod where it is unknown or none, which errs on the safe side."""
    return priority_class or PriorityClass.PROD


def snapshot_series(
    snapshot: Snapshot, class_of_pod: Mapping[str, PriorityClass] | None, reserved: Reserved | None
) -> dict[SeriesKey, UsageSample]:
    """Return all series of one instant.

    `class_of_pod` is keyed by the UID in the cgroup's name. While it is None, before the first list of pods, there are
    series of the node, the system and the pods only: no class is known, and every pod would count as Prod. Without
    `reserved` (unknown capacity of the node) the series that need it are left out. A value that is not usage (NaN,
    infinite, negative) counts as not measured.
    """
    snapshot = _with_usages_only(snapshot)
    series = {} if snapshot.node is None else {NODE: snapshot.node}
    if snapshot.system is not None:
        series[SYSTEM] = snapshot.system
    if class_of_pod is not None:
        series |= _class_and_reserve_series(snapshot, class_of_pod, reserved)
    for uid, usage in snapshot.pods.items():
        series[pod_key(uid)] = usage
    return series


def _class_and_reserve_series(
    snapshot: Snapshot, class_of_pod: Mapping[str, PriorityClass], reserved: Reserved | None
) -> dict[SeriesKey, UsageSample]:
    """Return the series of the classes, of S, and of prod + S."""
    series = _class_sums(snapshot, class_of_pod)
    if snapshot.system is not None and reserved is not None:
        unreserved = UsageSample(
            max(snapshot.system.cpu_cores - reserved.cpu_cores, 0.0),
            max(snapshot.system.memory_bytes - reserved.memory_bytes, 0.0),
        )
        series[UNRESERVED_SYSTEM] = unreserved
        if PROD in series:
            series[PROD_AND_UNRESERVED_SYSTEM] = _sum((series[PROD], unreserved))
    return series


def _with_usages_only(snapshot: Snapshot) -> Snapshot:
    """Drop values that are not usage. One such pod invalidates the system, which is node - pods."""
    spoilt = [
        uid
        for uid, (cpu_cores, memory_bytes) in snapshot.pods.items()
        if not (0 <= cpu_cores < math.inf and 0 <= memory_bytes < math.inf)  # as `_is_usage`, without a call each
    ]
    node, system = (
        sample if sample is not None and _is_usage(sample) else None for sample in (snapshot.node, snapshot.system)
    )
    if not spoilt and node is snapshot.node and system is snapshot.system:
        return snapshot
    return dataclasses.replace(
        snapshot,
        node=node,
        system=None if spoilt or node is None else system,
        pods={uid: usage for uid, usage in snapshot.pods.items() if uid not in spoilt},
        unmeasured_pods=snapshot.unmeasured_pods.union(spoilt),
    )


def _is_usage(sample: UsageSample) -> bool:
    return 0 <= sample.cpu_cores < math.inf and 0 <= sample.memory_bytes < math.inf  # false for NaN


def _class_sums(snapshot: Snapshot, class_of_pod: Mapping[str, PriorityClass]) -> dict[SeriesKey, UsageSample]:
    if not snapshot.pods and snapshot.system is None:
        return {}  # no pods, or no measured pods: the sums are unknown
    members: dict[PriorityClass, list[UsageSample]] = {priority_class: [] for priority_class in CLASSES}
    for uid, usage in snapshot.pods.items():
        members[counted_class(class_of_pod.get(uid))].append(usage)
    unknown = {counted_class(class_of_pod.get(uid)) for uid in snapshot.unmeasured_pods}
    return {
        SeriesKey(SeriesKind.CLASS, priority_class): _sum(usages)
        for priority_class, usages in members.items()
        if priority_class not in unknown
    }


def _sum(usages: Sequence[UsageSample]) -> UsageSample:
    cores, memory_bytes = zip(*usages, strict=True) if usages else ((), ())
    return UsageSample(math.fsum(cores), math.fsum(memory_bytes))

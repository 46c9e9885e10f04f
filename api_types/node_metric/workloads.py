"""Define what agents and manager exchange about workloads, and the scores of calibrated predictions. All extensions."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

import pydantic

from api_types.wire_model import Timestamp, WireModel

MOST_HISTORY: Final = 110
"""Pods of one node that `spec.workloadHistory` has at most: the default limit of the kubelet."""
MOST_WORKLOADS: Final = 60
_MOST_CELLS: Final = 1024
"""More than any grid of scores has."""

Number = Annotated[float, pydantic.Field(ge=0, le=1e30, allow_inf_nan=False)]


def pod_hash(uid: str) -> str:
    """Return the name of a pod in `spec.workloadHistory`: who reads NodeMetrics may not list pods."""
    return hashlib.sha256(uid.encode()).hexdigest()[:16]


class WorkloadUsage(WireModel):
    """Usage of one workload, in cores or bytes."""

    mean: Number
    """Decayed mean of one pod."""
    stdev: Number
    """Standard deviation of one pod."""
    start_peak: Number = 0.0
    """Largest usage of a pod in its first 10 minutes."""
    request: Number
    """Request of a pod, of the newest statement."""


class WorkloadMemory(WorkloadUsage):
    """Memory of one workload, in bytes."""

    rise: Number = 0.0
    """Largest rise of one pod within one horizon."""


class WorkloadHistory(WireModel):
    """What is known of the workload of one pod that is cold on this node."""

    pod: Annotated[str, pydantic.Field(max_length=16)]
    """First 16 hexadecimal digits of the SHA-256 of the pod's UID."""
    update_time: Timestamp
    """Time of the newest usage."""
    pod_hours: Number
    """Recorded hours of all pods of the workload, not decayed."""
    cpu: WorkloadUsage
    memory: WorkloadMemory


class AddedUsage(WireModel):
    """Usage that one node adds to a workload, in cores or bytes."""

    mean: Number
    """Mean over the added time of all pods."""
    m2: Number
    """Sum of the squared deviations from the mean, times hours."""
    start_peak: Number = 0.0
    """Largest usage of a pod in its first 10 minutes."""
    request: Number
    """Largest request of a pod."""


class AddedMemory(AddedUsage):
    """Memory that one node adds to a workload, in bytes."""

    rise: Number = 0.0
    """Largest rise of one pod within one horizon."""


class Workload(WireModel):
    """A controller of pods, of a StatefulSet one pod of it."""

    namespace: str
    kind: str
    """Kind of the controller that the pods name as their owner, such as ReplicaSet."""
    uid: str
    """UID of that controller."""
    ordinal: Annotated[int | None, pydantic.Field(ge=0)] = None
    """Number of the pod in its StatefulSet; absent for other kinds."""


class ColdPod(Workload):
    """A Prod pod with too little history of its own, borrowed ones among them, and its controller."""

    pod: Annotated[str, pydantic.Field(max_length=16)]
    """Name of the pod in `spec.workloadHistory`."""


class AddedWorkload(Workload):
    """What the warm pods of one controller on this node used since the last statement."""

    pod_hours: Number
    """Recorded hours since the last statement, of all pods together."""
    cpu: AddedUsage
    memory: AddedMemory


class ScoreCells(WireModel):
    """Decayed histogram of the scores of one resource."""

    labels: Number
    """Number of scores, not decayed."""
    cells: Annotated[
        list[Annotated[list[Number], pydantic.Field(min_length=2, max_length=2)]],
        pydantic.Field(max_length=_MOST_CELLS),
    ]
    """Index and weight of each cell in use."""


class ReportedScores(WireModel):
    """Scores of the calibrated forecasts of one node."""

    update_time: Timestamp
    """Time of the statement."""
    cpu: ScoreCells
    memory: ScoreCells


class ScorePrior(ReportedScores):
    """Scores of the nodes that are like this one."""

    nodes: Annotated[int, pydantic.Field(ge=0)]
    """Number of nodes that gave scores."""

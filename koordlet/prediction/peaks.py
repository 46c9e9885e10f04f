"""What a predictor is given and what it answers, for one resource: CPU in cores, memory in bytes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from koordlet.prediction.buckets import FloatArray
from koordlet.samples import Resource


class UsageStatistics(Protocol):
    """Decayed statistics of some series, one array element a series."""

    def mean(self) -> FloatArray:
        """Mean of each series."""

    def stdev(self) -> FloatArray:
        """Population standard deviation of each series."""

    def percentile(self, percent: float) -> FloatArray:
        """Percentile (0..100) of each series, read at the upper end of its bucket."""


@dataclass(frozen=True, slots=True)
class ProdLoad:
    """Prod pods of the node now, and the usage their peak is predicted from (design 4.3).

    The series of the node have one element each; one that has no current sample is None.
    """

    resource: Resource
    warm_pods: UsageStatistics
    """Each Prod pod with enough recorded history."""
    warm_requests: float
    """Sum of the requests of those pods."""
    cold_requests: float
    """C: sum of the requests of all other Prod pods."""
    prod: UsageStatistics | None
    """Prod pods as one series."""
    system: UsageStatistics | None
    """Everything outside of pods."""
    unreserved_system: UsageStatistics | None
    """S: system usage beyond what the node reserves."""
    prod_and_unreserved_system: UsageStatistics | None
    """Prod + S as one series."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Predicted peak of Prod and its terms, the safety margin included in them; a term a predictor has not is None."""

    peak: float
    cold_requests: float
    class_peak: float | None = None
    """Of the class as a whole, with what the predictor adds for the system."""
    pod_sum_peak: float | None = None
    """Sum over the warm pods one by one, without system."""
    system_peak: float | None = None
    """Of the system beside the pods."""


@dataclass(frozen=True, slots=True)
class NodePeak:
    """Everything that runs on the node: decayed mean and standard deviation of its usage, and the predicted peak."""

    mean: float
    stdev: float
    peak: float


class Cause(enum.StrEnum):
    """Why there is no prediction, in a few words of which there are few: the label of a counter."""

    PODS_UNKNOWN = "pods_unknown"
    ALLOCATABLE_UNKNOWN = "allocatable_unknown"
    NO_CURRENT_SAMPLE = "no_current_sample"
    UNUSABLE_POLICY = "unusable_policy"
    UNUSABLE_ANSWER = "unusable_answer"


@dataclass(frozen=True, slots=True)
class NoPrediction:
    """There is no prediction, and why. It is never replaced by a zero."""

    reason: str
    cause: Cause = Cause.NO_CURRENT_SAMPLE


def not_yet(resource: Resource, series: str) -> NoPrediction:
    """Answer of a predictor that needs a series without a current sample."""
    return NoPrediction(f"no current {resource} sample of {series}")

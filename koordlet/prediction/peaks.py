"""Inputs and outputs of a predictor for one resource: CPU in cores, memory in bytes."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from koordlet.prediction import allocation
from koordlet.prediction.allocation import ChargedPod, WholeAmounts
from koordlet.prediction.calibration.node_calibration import Calibrated
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.prediction.usage_models import SeriesStatistics
from koordlet.prediction.workloads import Division
from koordlet.samples import Resource


@dataclass(frozen=True, slots=True)
class ProdLoad:
    """Prod pods of the node now, and the usage from which their peak is predicted.

    The series of the node have one element each; a series without a current sample is None.
    """

    resource: Resource
    warm_pods: SeriesStatistics
    """Each Prod pod with enough recorded history of its own, then each with that of its workload."""
    warm_requests: float
    """Sum of the requests of the warm pods."""
    cold_requests: float
    """C: sum over all other Prod pods of the request, or of the usage now where that is larger; and `added`."""
    prod: SeriesStatistics | None
    """Prod pods as one series."""
    system: SeriesStatistics | None
    """Usage outside of pods."""
    unreserved_system: SeriesStatistics | None
    """S: system usage beyond the node's reservation."""
    prod_and_unreserved_system: SeriesStatistics | None
    """Prod + S as one series."""
    settled: SeriesStatistics | None = None
    """Prod + S as one series, without the usage of pods that are new; `prod_and_unreserved_system` while unknown."""
    warm_limits: FloatArray | float = math.inf
    """What each warm pod may use at most, infinite where nothing limits it."""
    warm_usage: FloatArray | float = math.inf
    """Newest usage of each warm pod; infinite or NaN while unknown."""
    borrowed: int = 0
    """How many of the warm pods, the last ones, are borrowed."""
    spared: float = 0.0
    """What pods that start were lent: their requests, less what they are charged in `cold_requests`."""
    added: float = 0.0
    """What rises of requests and limits gave to warm pods since too short a time, and their idle exclusive CPUs."""
    capacity: float = math.inf
    """Capacity of the node, infinite while unknown."""
    calibrated: Callable[[], Calibrated | None] = lambda: None
    """Return the calibrated peaks of this load, None while nothing was recorded for them."""

    @property
    def usage(self) -> float:
        """Return the usage of Prod and S now, the least of every peak."""
        together = self.prod_and_unreserved_system
        return 0.0 if together is None else float(together.newest()[0])


@dataclass(frozen=True, slots=True)
class Peak:
    """Predicted peak of Prod and its terms, each with the safety margin. Terms that a predictor lacks are None.

    The peak is at most the node's capacity; its terms are not limited by it.
    """

    peak: float
    cold_requests: float
    class_peak: float | None = None
    """Peak of the class as a whole, with the predictor's term for the system."""
    pod_sum_peak: float | None = None
    """Sum over the warm pods, without system."""
    system_peak: float | None = None
    """Peak of the system beside the pods."""
    level: str | None = None
    """Answer in force of a predictor that needs a history of forecasts: `n-sigma-v2`, `max` or `calibrated`."""


@dataclass(frozen=True, slots=True)
class NodePeak:
    """Usage of the whole node: decayed mean and standard deviation, and the predicted peak."""

    mean: float
    stdev: float
    peak: float


class Cause(enum.StrEnum):
    """Cause of a missing prediction: the label of a counter, with few values."""

    PODS_UNKNOWN = "pods_unknown"
    ALLOCATABLE_UNKNOWN = "allocatable_unknown"
    NO_CURRENT_SAMPLE = "no_current_sample"
    UNUSABLE_POLICY = "unusable_policy"
    UNUSABLE_ANSWER = "unusable_answer"
    PREDICTOR_MISSING = "predictor_missing"


@dataclass(frozen=True, slots=True)
class NoPrediction:
    """Reason for a missing prediction. It is never replaced by a zero."""

    reason: str
    cause: Cause = Cause.NO_CURRENT_SAMPLE


def no_sample(resource: Resource, series: str) -> NoPrediction:
    """Return the result of a predictor that needs a series without a current sample."""
    return NoPrediction(f"no current {resource} sample of {series}")


@dataclass(frozen=True, slots=True)
class Loads:
    """Load of Prod on each resource, for one cold-start period and one N."""

    pods: Division
    by_resource: Mapping[Resource, ProdLoad]


@dataclass(frozen=True)
class Instant:
    """Arguments of one call of `PredictionServer.predict_each`, and what it has computed so far."""

    now_seconds: float
    bound: Sequence[ChargedPod]
    allocatable: WholeAmounts | None
    capacity: WholeAmounts | None
    unmeasured: Container[str]
    loads: dict[tuple[float, float, str], Loads] = field(default_factory=dict)
    """By cold-start period, N and kind of cold start."""
    node_peaks: dict[float, dict[Resource, NodePeak]] = field(default_factory=dict)
    """By N."""

    @functools.cached_property
    def prod_pods(self) -> list[ChargedPod]:
        """The pods charged to Prod."""
        return allocation.charged_to_prod(self.bound)

    @functools.cached_property
    def requested(self) -> WholeAmounts:
        """Requests of the pods charged to Prod."""
        return allocation.requested_by(self.prod_pods)

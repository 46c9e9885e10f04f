"""Estimate the usage of a pod before it is measured, as Koordinator's defaultEstimator.

    q = limit if limit > request else request
    x = floor of the resource                      if q = 0        250 milli-cores, 200 Mi; not scaled, none for Mid
        min(round(q * factor / 100), limit)        otherwise       a limit of 0 does not cap

Request and limit are read under the names of the pod's class (Batch: batch-cpu, Mid: mid-cpu ...). The result has the
native names, because a node reports its usage under these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, priority_and_qos, quantities
from api_types.kubernetes.priority_and_qos import PriorityClass
from scheduler_plugin.state import vectors
from scheduler_plugin.state.vectors import Vector

_FLOORS: Final = {names.CPU: 250, names.BATCH_CPU: 250, names.MEMORY: 200 * 1024**2, names.BATCH_MEMORY: 200 * 1024**2}
_INT64_MAX: Final = 2**63 - 1
_WHOLE_SECONDS: Final = re.compile(r"\+?\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorArgs:
    """Arguments of the estimates; what is derived with them is kept by their identity."""

    resources: tuple[str, ...]
    """Names of the vectors' entries; other resources are dropped."""
    scaling_factors_percent: Mapping[str, int]
    allow_customize: bool = False
    """Whether pods may override factors and seconds by annotation."""
    seconds_after_scheduled: int | None = None
    seconds_after_initialized: int | None = None
    with_demand: bool = False
    """Whether the declared resources of a pod are kept beside its estimate, for a plugin that reads them."""
    exempt_namespaces: frozenset[str] | None = None
    """Namespaces whose pods may exempt themselves from load limits; None: all."""

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Return the entries of `amounts` in the order of `resources`, 0 if absent, limited to LARGEST."""
        return tuple([vectors.cut(amounts.get(resource, 0)) for resource in self.resources])


def integer_map(annotation: str | None) -> dict[str, int] | None:
    """Decode a JSON object of integers as Go does: None unless every value is an integer (null counts as 0)."""
    if not annotation:
        return None
    try:
        decoded = msgspec.json.decode(annotation, type=dict[str, int | None] | None, strict=True)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    if decoded is None or any(abs(value or 0) > _INT64_MAX for value in decoded.values()):
        return None
    return {name: value or 0 for name, value in decoded.items()}


def scaling_factors(pod: pods.Pod, args: EstimatorArgs) -> Mapping[str, int]:
    """Return the factors of one pod: those of `args`, overridden by a well-formed annotation if that is allowed."""
    if not args.allow_customize:
        return args.scaling_factors_percent
    factors = integer_map(
        pods.annotation(pods.annotation_map(pod.metadata), names.ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS)
    )
    return {**args.scaling_factors_percent, **factors} if factors else args.scaling_factors_percent


def estimate(
    pod: pods.Pod, args: EstimatorArgs, priority_class: PriorityClass, requests: pods.Resources
) -> dict[str, int]:
    """Estimate the usage of a pod of that class with these requests, by native resource name.

    Raises quantities.InvalidQuantity.
    """
    limits = quantities.known(pods.limits(pod.spec))
    estimated = {}
    for resource, factor_percent in scaling_factors(pod, args).items():
        requested_as = priority_and_qos.translated_resource(priority_class, resource)
        estimated[resource] = (
            _estimate_resource(requested_as, requests.get(requested_as, 0), limits.get(requested_as, 0), factor_percent)
            if requested_as
            else 0
        )
    return estimated


def _estimate_resource(requested_as: str, request: int, limit: int, factor_percent: int) -> int:
    declared = max(limit, request)
    if declared == 0:
        return _FLOORS.get(requested_as, 0)
    scaled = vectors.int_half_away_from_zero(float(min(declared, _INT64_MAX)) * float(factor_percent) / 100)
    return limit if 0 < limit < scaled else scaled


def forced_until(pod: pods.Pod, args: EstimatorArgs, assigned_at: float, initialized_at: float | None) -> float | None:
    """Return the time before which the estimate counts although usage is reported; None without such a time.

    Seconds after initialisation take precedence over seconds after scheduling, even if they end earlier.
    """
    after_initialized = _own_seconds(
        pod, args, names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED, args.seconds_after_initialized
    )
    if after_initialized > 0 and initialized_at is not None:
        return initialized_at + after_initialized
    after_scheduled = _own_seconds(
        pod, args, names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED, args.seconds_after_scheduled
    )
    return assigned_at + after_scheduled if after_scheduled > 0 else None


def _own_seconds(pod: pods.Pod, args: EstimatorArgs, annotation: str, default: int | None) -> int:
    if args.allow_customize:
        text = pods.annotation_map(pod.metadata).get(annotation, "")
        if _WHOLE_SECONDS.fullmatch(text):
            return int(text)
    return default or 0

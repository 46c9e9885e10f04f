"""How much a pod will use, before anyone has measured it (koordinator-loadaware section 5, deadlines section 7).

    q = limit if limit > request else request
    x = floor of the resource                      if q = 0        250 milli-cores, 200 Mi; not scaled, none for Mid
        min(round(q * factor / 100), limit)        otherwise       a limit of 0 does not cap

The names of request and limit are those of the pod's class (Batch: batch-cpu, Mid: mid-cpu ...); the result is keyed
by the native name, because that is what a node reports as used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, priority_and_qos
from api_types.kubernetes.priority_and_qos import PriorityClass

Vector = tuple[int, ...]
"""One integer per resource of the policy's `resources`, in its order; cpu in milli-cores, the rest in base units."""

LARGEST: Final = 2**53
"""No node has more of anything (8 PiB, 9 * 10**12 cores). Amounts are cut here, so that sums fit 64 bits."""

_FLOORS: Final = {
    names.CPU: 250,
    names.BATCH_CPU: 250,
    names.MEMORY: 200 * 1024**2,
    names.BATCH_MEMORY: 200 * 1024**2,
}
_INT64_MAX: Final = 2**63 - 1
_WHOLE_SECONDS: Final = re.compile(r"\+?\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class EstimatorArgs:
    """What the estimates depend on."""

    resources: tuple[str, ...]
    """Names of the vectors' entries; a resource outside is dropped everywhere."""
    scaling_factors_percent: Mapping[str, int]
    allow_customize: bool = False
    """Whether pods may override factors and seconds by annotation."""
    seconds_after_scheduled: int | None = None
    seconds_after_initialized: int | None = None
    with_demand: bool = False
    """Whether what pods declare is kept beside the estimates: a policy asks for it."""

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Entries of `amounts` in the order of `resources`, 0 where it has none, cut at LARGEST."""
        return tuple([cut(amounts.get(resource, 0)) for resource in self.resources])


def cut(amount: int) -> int:
    """Bring an amount to what 64 bits can sum up."""
    return max(-LARGEST, min(amount, LARGEST))


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero, as Go's math.Round does."""
    whole = math.trunc(value)
    if abs(value - whole) < 0.5:
        return whole
    return whole + (1 if value > 0 else -1)


def integer_map(annotation: str | None) -> dict[str, int] | None:
    """Decode a JSON object of integers as Go would: None unless every value is an integer (null counts as 0)."""
    if not annotation:
        return None
    try:
        decoded = msgspec.json.decode(annotation, type=dict[str, int | None] | None, strict=True)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    if decoded is None or any(abs(value or 0) > _INT64_MAX for value in decoded.values()):
        return None
    return {name: value or 0 for name, value in decoded.items()}


def scaling_factors(pod: pods.Pod, policy: EstimatorArgs) -> Mapping[str, int]:
    """Factors of one pod: its annotation's, completed from the policy's, where that is allowed and well formed."""
    if not policy.allow_customize:
        return policy.scaling_factors_percent
    own = integer_map(pods.annotations_of(pod.metadata).get(names.ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS))
    return {**policy.scaling_factors_percent, **own} if own else policy.scaling_factors_percent


def estimate(
    pod: pods.Pod, policy: EstimatorArgs, priority_class: PriorityClass, requests: pods.Resources
) -> dict[str, int]:
    """Estimated usage of a pod of that class and with those requests, by native resource name.

    Raises quantities.InvalidQuantity.
    """
    limits = pods.limits(pod.spec)
    estimated = {}
    for resource, factor_percent in scaling_factors(pod, policy).items():
        requested_as = priority_and_qos.translated_resource(priority_class, resource)
        estimated[resource] = (
            _estimate_resource(requested_as, requests.get(requested_as, 0), limits.get(requested_as, 0), factor_percent)
            if requested_as
            else 0
        )
    return estimated


def _estimate_resource(requested_as: str, request: int, limit: int, factor_percent: int) -> int:
    wanted = max(limit, request)
    if wanted == 0:
        return _FLOORS.get(requested_as, 0)
    scaled = round_half_away(float(min(wanted, _INT64_MAX)) * float(factor_percent) / 100)
    return limit if 0 < limit < scaled else scaled


def forced_until(
    pod: pods.Pod, policy: EstimatorArgs, assigned_at: float, initialized_at: float | None
) -> float | None:
    """Time before which the estimate counts although usage is reported; None where nothing asks for it.

    Seconds after initialisation win over seconds after scheduling, even where they end earlier.
    """
    after_initialized = _own_seconds(
        pod, policy, names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED, policy.seconds_after_initialized
    )
    if after_initialized > 0 and initialized_at is not None:
        return initialized_at + after_initialized
    after_scheduled = _own_seconds(
        pod, policy, names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED, policy.seconds_after_scheduled
    )
    return assigned_at + after_scheduled if after_scheduled > 0 else None


def _own_seconds(pod: pods.Pod, policy: EstimatorArgs, annotation: str, default: int | None) -> int:
    if policy.allow_customize:
        text = pods.annotations_of(pod.metadata).get(annotation, "")
        if _WHOLE_SECONDS.fullmatch(text):
            return int(text)
    return default or 0

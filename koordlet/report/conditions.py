"""Conditions of a report: Ready, WarmingUp, SourceDegraded, PredictionDegraded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from api_types.node_metric import types as node_metric
from koordlet.samples import NoData

_Status = Literal["True", "False", "Unknown"]
_MOST_NAMED = 5  # for readability; the metrics have all of them


@dataclass(frozen=True, slots=True)
class Facts:
    """Inputs of the conditions."""

    has_node_usage: bool
    no_data: Sequence[NoData]
    pods_are_known: bool
    warm_pods: int
    cold_pods: int
    cold_start_period_seconds: float
    no_prediction: str | None
    """Why there is no prediction; None when there is one."""
    state_problem: str | None
    """Why the recorded history is not stored on disk; None when it is, or when no folder is configured."""
    reservation_problem: str | None = None
    """Problem of the node's annotation that reserves resources; None without one."""
    throttled_pods: Sequence[str] = ()
    """Names of the throttled Prod pods, the most throttled first."""


def _ready(facts: Facts) -> tuple[_Status, str, str]:
    if not facts.has_node_usage:
        return "False", "NoNodeUsage", "the usage of the node could not be measured; see SourceDegraded"
    if not facts.pods_are_known:
        return (
            "False",
            "PodsUnknown",
            "the pods bound to this node are not known yet; waiting for the first list from the API server",
        )
    return "True", "Reporting", "usage is measured and the pods of the node are known"


def _warming_up(facts: Facts) -> tuple[_Status, str, str]:
    if facts.cold_pods:
        return (
            "True",
            "ColdPods",
            (
                f"{facts.cold_pods} of {facts.cold_pods + facts.warm_pods} Prod pods have less than "
                f"{facts.cold_start_period_seconds:g} s of recorded history and are charged at least their full request"
            ),
        )
    return "False", "Warm", f"all {facts.warm_pods} Prod pods are predicted from their recorded history"


def _source_degraded(facts: Facts) -> tuple[_Status, str, str]:
    if not facts.no_data:
        return "False", "AllSourcesRead", "every source gave data"
    named = "; ".join(f"{each.source} {each.path}: {each.reason}" for each in facts.no_data[:_MOST_NAMED])
    more = len(facts.no_data) - _MOST_NAMED
    return "True", "NoData", named + (f"; and {more} more" if more > 0 else "")


def _prediction_degraded(facts: Facts) -> tuple[_Status, str, str]:
    """Return the most severe reason, and the messages of all reasons."""
    found = [(reason, message) for reason, message in _degradations(facts) if message]
    if not found:
        return "False", "Predicting", "the peak of Prod is predicted"
    return "True", found[0][0], "; ".join(message for _reason, message in found)


def _degradations(facts: Facts) -> Iterator[tuple[str, str | None]]:
    """Return reasons, the most severe first, each with a message if it applies."""
    yield "NoPrediction", facts.no_prediction
    yield "HistoryInMemoryOnly", facts.state_problem
    if facts.reservation_problem:
        ignored = f"{facts.reservation_problem}: only the reservation of the kubelet is used"
        yield "ReservationIgnored", ignored
    if facts.throttled_pods:
        named = ", ".join(facts.throttled_pods[:_MOST_NAMED])
        more = len(facts.throttled_pods) - _MOST_NAMED
        throttled = (
            f"{len(facts.throttled_pods)} Prod pods are throttled by their CPU limits: their usage, and the peak "
            f"predicted from it, understates what they need: {named}"
        )
        yield "ThrottledPods", throttled + (f" and {more} more" if more > 0 else "")


_CONDITIONS = (
    ("Ready", _ready),
    ("WarmingUp", _warming_up),
    ("SourceDegraded", _source_degraded),
    ("PredictionDegraded", _prediction_degraded),
)


def evaluate(
    facts: Facts, previous: Sequence[node_metric.Condition], now: dt.datetime, observed_generation: int | None
) -> list[node_metric.Condition]:
    """Return all conditions. A condition keeps its transition time while its status does not change."""
    before = {condition.type: condition for condition in previous}
    result = []
    for name, decide in _CONDITIONS:
        status, reason, message = decide(facts)
        old = before.get(name)
        unchanged_since = old.last_transition_time if old is not None and old.status == status else None
        result.append(
            node_metric.Condition(
                type=name,
                status=status,
                reason=reason,
                message=message,
                last_transition_time=unchanged_since or now,
                observed_generation=observed_generation,
            )
        )
    return result

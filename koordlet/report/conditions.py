"""Conditions of a report: the agent, its sources and prediction, throttled pods, suppression and limits of Mid pods."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

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
    spec_problem: str | None = None
    """Why the newest spec is ignored, and the previous one stays in force; None when it is followed."""
    lacks_policy: bool = False
    """Whether neither the spec nor the agent's settings have a policy of the prediction."""
    unsupported: str | None = None
    """What the spec requests and this agent does not measure; None without such a request."""
    unreadable: Sequence[str] = ()
    """Objects of the API server whose newest state cannot be decoded, each with the reason."""
    pods_in_system: int = 0
    """Number of pods that cannot be measured."""
    refused_identities: Sequence[str] = ()
    """Pods whose claim to the UID of another pod is refused, each with the reason."""
    refused_pods: int = 0
    """Number of pods without a model because there are too many."""
    predictor_problem: str | None = None
    """Why another predictor answers for the one in force; None if none does."""
    cache_problem: str | None = None
    """How much of the memory in use is a cache that counts; None where it is little."""
    evaluation_problems: Sequence[str] = ()
    """Why predictors that are only evaluated are not."""
    throttled_pods: Sequence[str] = ()
    """Names of the throttled Prod pods, the most throttled first."""
    suppression_problems: Sequence[tuple[str, str]] | None = None
    """Reason and message of each problem of the suppression of Mid pods; None while it is off."""
    mid_pods_without_limits: Sequence[str] = ()
    """Names of the Mid pods with a container that lacks a limit."""


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
    problems = []
    if facts.pods_in_system:
        problems.append(
            f"{facts.pods_in_system} pods cannot be measured: their usage counts as system usage, and Prod pods among "
            "them are charged their requests"
        )
    if facts.no_data:
        problems.append(
            _named([f"{source.source} {source.path}: {source.reason}" for source in facts.no_data], between="; ")
        )
    if facts.unsupported:
        problems.append(facts.unsupported)
    if not problems:
        return "False", "AllSourcesRead", "every source gave data"
    return "True", "NoData" if facts.no_data else "Unsupported", "; ".join(problems)


def _named(names: Sequence[str], between: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return between.join(names[:_MOST_NAMED]) + (f"{between}and {more} more" if more > 0 else "")


def _degraded(problems: Iterable[tuple[str, str | None]], reason: str, message: str) -> tuple[_Status, str, str]:
    """Return the most severe reason, and the messages of all reasons; without problems the reason and message given."""
    present = [(severest, text) for severest, text in problems if text]
    if not present:
        return "False", reason, message
    return "True", present[0][0], "; ".join(text for _reason, text in present)


def _degradations(facts: Facts) -> Iterator[tuple[str, str | None]]:
    """Return reasons, the most severe first, each with a message if it applies."""
    yield "NoPrediction", facts.no_prediction
    if facts.spec_problem:
        yield "SpecRefused", f"{facts.spec_problem}: the previous spec stays in force"
    yield "PredictorSwitchedOff", facts.predictor_problem
    if facts.lacks_policy:
        dropped = "its CRD drops it, another manager wrote the spec, or no configuration is valid yet"
        fix = "set koordlet.predictPolicy, or install the CRD and the manager of this chart"
        yield "SpecWithoutPredictPolicy", f"the spec has no predictPolicy ({dropped}): defaults are in force; {fix}"
    yield "HistoryInMemoryOnly", facts.state_problem
    if facts.reservation_problem:
        ignored = f"{facts.reservation_problem}: only the reservation of the kubelet is used"
        yield "ReservationIgnored", ignored
    if facts.unreadable:
        yield "UnreadableObjects", f"what was known of these objects is out of date: {_named(facts.unreadable)}"
    if facts.refused_identities:
        yield "IdentitiesRefused", f"pods claim to be others: {_named(facts.refused_identities)}"
    if facts.refused_pods:
        refused = (
            f"{facts.refused_pods} pods have no model, because too many are tracked: they are charged their requests"
        )
        yield "PodsRefused", refused
    yield "ZfsCacheCounts", facts.cache_problem
    if facts.evaluation_problems:
        unaffected = "the published prediction is not affected"
        yield "EvaluationDegraded", f"{'; '.join(facts.evaluation_problems)}; {unaffected}"


def _throttled(facts: Facts) -> tuple[_Status, str, str]:
    if not facts.throttled_pods:
        return "False", "NotThrottled", "no Prod pod is held back by its CPU limit"
    return (
        "True",
        "ThrottledPods",
        (
            f"{len(facts.throttled_pods)} Prod pods are throttled by their CPU limits: their usage, and the peak "
            f"predicted from it, understates what they need: {_named(facts.throttled_pods)}"
        ),
    )


def _without_limits(facts: Facts) -> tuple[_Status, str, str]:
    names = facts.mid_pods_without_limits
    return "True", "NoLimit", f"containers of {len(names)} Mid pods lack a limit of CPU or memory: {_named(names)}"


_PREDICTING: Final = "Predicting", "the peak of Prod is predicted"
_SUPPRESSING: Final = "Suppressing", "CPU limits of Mid pods follow the usage of the node"
_CONDITIONS: Final[Sequence[tuple[str, Callable[[Facts], tuple[_Status, str, str]]]]] = (
    ("Ready", _ready),
    ("WarmingUp", _warming_up),
    ("SourceDegraded", _source_degraded),
    ("PredictionDegraded", lambda facts: _degraded(_degradations(facts), *_PREDICTING)),
    ("Throttled", _throttled),
    ("SuppressionDegraded", lambda facts: _degraded(facts.suppression_problems or (), *_SUPPRESSING)),
    ("MidPodsWithoutLimits", _without_limits),
)


def evaluate(
    facts: Facts, previous: Sequence[node_metric.NodeMetricCondition], now: dt.datetime, observed_generation: int | None
) -> list[node_metric.NodeMetricCondition]:
    """Return all conditions; that of the suppression only while it is on, that of limits only where one is missing.

    A condition keeps its transition time while its status does not change.
    """
    before = {condition.type: condition for condition in previous}
    absent = {"SuppressionDegraded"} if facts.suppression_problems is None else set[str]()
    absent |= set() if facts.mid_pods_without_limits else {"MidPodsWithoutLimits"}
    result = []
    for name, decide in _CONDITIONS:
        if name in absent:
            continue
        status, reason, message = decide(facts)
        old = before.get(name)
        unchanged_since = old.last_transition_time if old is not None and old.status == status else None
        result.append(
            node_metric.NodeMetricCondition(
                type=name,
                status=status,
                reason=reason,
                message=message,
                last_transition_time=unchanged_since or now,
                observed_generation=observed_generation,
            )
        )
    return result

"""Gather what a decision about one node needs from its objects, its policy and what is remembered of it. Pure."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final, NamedTuple

from api_types.colocation import controller_config as slo
from api_types.kubernetes import times
from api_types.node_metric import mid_report, mid_status
from api_types.node_metric.mid_report import MidPolicy, MidReport, UsableReport
from api_types.node_metric.mid_status import MidStatus
from manager.cache import store
from manager.mid_resource.reasons import Reason, Status
from manager.slo_config.strategy import NodeStrategy, once_per_strategy

CLOCK_TOLERANCE: Final = dt.timedelta(seconds=60)
"""Far above the delay of a report, and below the smallest `degradeTimeMinutes` but for the limit itself."""
_CENTURY_SECONDS: Final = 100 * 365 * 24 * 3600


@dataclass(frozen=True)
class DecisionInputs:
    """State of a node and its report, as a decision needs it. Times are aware; None where there is none."""

    enabled: bool
    withdraws_for_shadow: bool
    """Whether the node carries Mid resources of this manager, which `midPublish: shadow` takes back."""
    degrade_after: dt.timedelta
    node_metric_exists: bool
    exists_since: dt.datetime | None
    """Creation time of the Node or its NodeMetric, whichever is younger: older samples are of an earlier object."""
    sample_time: dt.datetime | None
    usable: UsableReport | None
    """Amounts of the newest report; None where it was refused."""
    predicts: bool
    """Whether the newest report has the prediction that the mode needs."""
    refused: str | None
    """Fault of the newest report, where it holds an impossible value."""
    last_usable: dt.datetime | None
    """Sample time of the last report that could be used."""
    last_prediction: dt.datetime | None
    """Sample time of the last report with a prediction, where the published values may be from it."""
    clock_fault: str = ""
    """Fault of the node's clock, in words; empty where it is right, or not known."""


class LastSamples(NamedTuple):
    """Sample times of the last usable report of a node, and of the last one with a prediction."""

    usable: dt.datetime | None = None
    prediction: dt.datetime | None = None


@once_per_strategy
def mid_policy(strategy: NodeStrategy) -> MidPolicy:
    """Return the policy of the formula for nodes with this strategy."""
    return mid_report.mid_policy(strategy.strategy)


def spec_policy(metric: store.StoredNodeMetric) -> slo.MidColocationPolicy | None:
    """Return the policy that the manager wrote for this node; None where it is absent or invalid."""
    wire = (metric.spec or {}).get("midColocationPolicy")
    try:
        return slo.MidColocationPolicy.model_validate(wire) if wire is not None else None
    except ValueError:
        return None


def degrade_time(strategy: slo.MidColocationPolicy) -> dt.timedelta:
    """Return the age beyond which a sample does not count."""
    return period(60 * (strategy.degrade_time_minutes or slo.DEFAULTS.degrade_time_minutes or 15))


def period(seconds: int) -> dt.timedelta:
    """Return a configured period, a century at most: a later time would exceed the range of datetime."""
    return dt.timedelta(seconds=min(seconds, _CENTURY_SECONDS))


def gather(
    node: store.StoredNode,
    metric: store.StoredNodeMetric | None,
    policy: MidPolicy,
    *,
    enabled: bool,
    degrade_after: dt.timedelta,
    last: LastSamples = LastSamples(),  # noqa: B008  # immutable
) -> DecisionInputs:
    """Gather the inputs of one node.

    `last` is what this process remembers; the node's status annotation may hold later times.
    """
    report = (metric.status if metric else None) or MidReport()
    usable, refused = _read(report, policy)
    born = [store.created(item) for item in (node, metric) if item is not None]
    written, is_static = node.mid_status, policy.static_percent is not None
    return DecisionInputs(
        enabled=enabled,
        withdraws_for_shadow=written is not None and not policy.publishes,
        degrade_after=degrade_after,
        node_metric_exists=metric is not None,
        exists_since=max((time for time in born if time), default=None),
        sample_time=times.parse_rfc3339_or_none(report.update_time),
        usable=usable,
        refused=refused,
        predicts=is_static or (usable is not None and usable.has_prediction()),
        last_usable=_later(last.usable, mid_status.last_usable(written)),
        last_prediction=_later(last.prediction, written.prediction) if written and _predicted(written) else None,
        clock_fault=clock_fault(clock_skew(metric)) if metric is not None else "",
    )


def _predicted(written: MidStatus) -> bool:
    """Check whether the published values may follow from a prediction; otherwise none of them is to be kept."""
    return written.status != Status.WITHDRAWN and written.reason != Reason.STATIC


def _later(remembered: dt.datetime | None, written: str | None) -> dt.datetime | None:
    return max((time for time in (remembered, times.parse_rfc3339_or_none(written)) if time), default=None)


def _read(report: MidReport, policy: MidPolicy) -> tuple[UsableReport | None, str | None]:
    try:
        return mid_report.usable_report(report, policy), None
    except mid_report.BadReport as error:
        return None, str(error)


def gather_by_spec(node: store.StoredNode, metric: store.StoredNodeMetric | None) -> DecisionInputs | None:
    """Gather by the policy in the NodeMetric's spec, as koordctl does; None where the spec has none."""
    policy = spec_policy(metric) if metric else slo.MidColocationPolicy(enable=True)
    if policy is None:
        return None
    return gather(
        node,
        metric,
        mid_report.mid_policy(policy),
        enabled=bool(policy.enable),
        degrade_after=degrade_time(policy),
    )


def clock_skew(metric: store.StoredNodeMetric) -> dt.timedelta | None:
    """Return how far a node's clock is ahead of the apiserver's, negative where it is behind; None where unknown.

    The age of a sample is a difference of two clocks: the node's wrote its time, the manager's reads it. The apiserver
    records by its own clock when a status was written, within seconds of the sample. A wrong clock is only reported: it
    makes no sample younger, so the error is on the safe side, or within the tolerance for times in the future.

    Each client that wrote a part of the status has a time of its own. The nearest one counts, so that a later change
    by another client is not taken for a slow clock.
    """
    sample = times.parse_rfc3339_or_none(metric.status.update_time if metric.status else None)
    if sample is None:
        return None
    written = (
        times.parse_rfc3339_or_none(entry.time)
        for entry in metric.metadata.managed_fields or ()
        if entry.subresource == "status"
    )
    return min((sample - time for time in written if time is not None), key=abs, default=None)


def clock_fault(ahead: dt.timedelta | None) -> str:
    """Describe a clock that is wrong by more than the tolerance; empty for any other."""
    if ahead is None or abs(ahead) <= CLOCK_TOLERANCE:
        return ""
    kind = "fast" if ahead > dt.timedelta() else "slow"
    return f"the clock of the node is {abs(ahead).total_seconds():.0f} s {kind}"

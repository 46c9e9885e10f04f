"""Decide whether a node's Mid resources are calculated, kept or withdrawn. Pure.

Absent is not zero: a report that cannot be used, and a NodeMetric that is missing or cannot be read, withdraw nothing
until the last usable sample is older than `degradeTimeMinutes`. A report without a prediction changes nothing until the
last prediction is that old; then nothing is reclaimable, and the share of what no Prod pod requests is still offered. A
withdrawal happens when colocation is off for the node, when that time is over, whatever else can be read or written,
and when a node that has Mid is switched to shadow.
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from api_types.colocation import controller_config as slo
from api_types.kubernetes import times
from api_types.node_metric import mid_report, mid_status
from api_types.node_metric.mid_report import MidPolicy, MidReport, UsableReport
from api_types.node_metric.mid_status import MidStatus
from manager.cache import store
from manager.mid_resource import clock_skew
from manager.mid_resource.reasons import Reason, Status

FUTURE_TOLERANCE: Final = dt.timedelta(minutes=5)
"""How far a sample may be ahead of the manager's clock: clocks of nodes drift by a minute or two."""

_CENTURY_SECONDS: Final = 100 * 365 * 24 * 3600


class Action(enum.Enum):
    """Action on the published values."""

    CALCULATE = enum.auto()
    KEEP = enum.auto()
    WITHDRAW = enum.auto()


@dataclass(frozen=True)
class Decision:
    """Action and reason, and the time at which the decision changes without an event."""

    action: Action
    reason: Reason
    detail: str = ""
    changes_at: dt.datetime | None = None


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


def degrade_time(strategy: slo.MidColocationPolicy) -> dt.timedelta:
    """Return the age beyond which a sample does not count."""
    return period(60 * (strategy.degrade_time_minutes or slo.DEFAULTS.degrade_time_minutes or 15))


def period(seconds: int) -> dt.timedelta:
    """Return a configured period, a century at most: a later time would exceed the range of datetime."""
    return dt.timedelta(seconds=min(seconds, _CENTURY_SECONDS))


def gather(
    node: store.Node,
    metric: store.NodeMetric | None,
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
    born = [store.created(each) for each in (node, metric) if each is not None]
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
        clock_fault=clock_skew.fault(clock_skew.skew(metric)) if metric is not None else "",
    )


def _predicted(written: MidStatus) -> bool:
    """Check whether the published values may follow from a prediction; otherwise none of them is to be kept."""
    return written.status != Status.WITHDRAWN and written.reason != Reason.STATIC


def _later(known: dt.datetime | None, written: str | None) -> dt.datetime | None:
    return max((time for time in (known, times.parse_rfc3339_or_none(written)) if time), default=None)


def _read(report: MidReport, policy: MidPolicy) -> tuple[UsableReport | None, str | None]:
    try:
        return mid_report.usable_report(report, policy), None
    except mid_report.BadReport as error:
        return None, str(error)


def decide(inputs: DecisionInputs, now: dt.datetime) -> Decision:
    """Decide for one node."""
    return _without_report(inputs, now) or _by_age(inputs, now) or _by_content(inputs, now)


def _without_report(inputs: DecisionInputs, now: dt.datetime) -> Decision | None:
    if not inputs.enabled or inputs.withdraws_for_shadow:
        return Decision(Action.WITHDRAW, Reason.SHADOW if inputs.enabled else Reason.COLOCATION_DISABLED)
    if not inputs.node_metric_exists:
        if (last := _still_counts(inputs, now)) is None:
            return Decision(Action.WITHDRAW, Reason.NODE_METRIC_MISSING)
        return Decision(Action.KEEP, Reason.AWAITING_FIRST_REPORT, changes_at=last + inputs.degrade_after)
    since, sample = inputs.exists_since, inputs.sample_time
    if sample is not None and (since is None or sample >= since):
        return None
    if since is not None and inputs.last_usable is not None:
        since = min(since, inputs.last_usable)  # a NodeMetric that is created again prolongs nothing
    if since is None or is_degraded(since, inputs.degrade_after, now):
        return Decision(Action.WITHDRAW, Reason.NEVER_REPORTED)
    return Decision(Action.KEEP, Reason.AWAITING_FIRST_REPORT, changes_at=since + inputs.degrade_after)


def _by_age(inputs: DecisionInputs, now: dt.datetime) -> Decision | None:
    sample = inputs.sample_time
    assert sample is not None
    if sample > now + FUTURE_TOLERANCE:
        detail = (
            f"status.updateTime: seen {times.format_rfc3339(sample)}, want no later than {times.format_rfc3339(now)}"
        )
        return _refused(inputs, now, _with_clock(detail, inputs))
    if is_degraded(sample, inputs.degrade_after, now):
        detail = _with_clock(f"sample of {times.format_rfc3339(sample)}", inputs)
        return Decision(Action.WITHDRAW, Reason.SAMPLE_TOO_OLD, detail)
    return None


def _with_clock(detail: str, inputs: DecisionInputs) -> str:
    return f"{detail}; {inputs.clock_fault}" if inputs.clock_fault else detail


def _by_content(inputs: DecisionInputs, now: dt.datetime) -> Decision:
    if inputs.refused is not None:
        return _refused(inputs, now, inputs.refused)
    assert inputs.sample_time is not None
    too_old_at = inputs.sample_time + inputs.degrade_after
    if inputs.predicts:
        return Decision(Action.CALCULATE, Reason.CALCULATED, changes_at=too_old_at)
    last = inputs.last_prediction
    if last is not None and _counts(last, inputs, now):
        return Decision(Action.KEEP, Reason.NO_PREDICTION, changes_at=min(last + inputs.degrade_after, too_old_at))
    detail = f"last prediction of {times.format_rfc3339(last)}" if last else "no prediction yet"
    return Decision(Action.CALCULATE, Reason.CALCULATED_WITHOUT_PREDICTION, detail, changes_at=too_old_at)


def _refused(inputs: DecisionInputs, now: dt.datetime, detail: str) -> Decision:
    """Keep the published values until the last usable report is older than `degradeTimeMinutes`, then withdraw."""
    if (last := _still_counts(inputs, now)) is None:
        return Decision(Action.WITHDRAW, Reason.SAMPLE_TOO_OLD, f"the newest report is refused: {detail}")
    return Decision(Action.KEEP, Reason.REPORT_REFUSED, detail, changes_at=last + inputs.degrade_after)


def _counts(last: dt.datetime, inputs: DecisionInputs, now: dt.datetime) -> bool:
    return last <= now + FUTURE_TOLERANCE and not is_degraded(last, inputs.degrade_after, now)


def _still_counts(inputs: DecisionInputs, now: dt.datetime) -> dt.datetime | None:
    """Return the sample time of the last usable report; None where there is none, or it is too old."""
    last = inputs.last_usable
    return last if last is not None and _counts(last, inputs, now) else None


def is_degraded(sample: dt.datetime | None, degrade_after: dt.timedelta, now: dt.datetime) -> bool:
    """Check whether a sample is missing, or older than `degrade_after`. A sample of exactly that age still counts."""
    return sample is None or now - sample > degrade_after

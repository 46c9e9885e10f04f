"""Decide whether a node's Mid resources are calculated, kept or withdrawn. Pure.

Absent is not zero: a report that cannot be used withdraws nothing until the last usable one is older than
`degradeTimeMinutes`. A withdrawal happens when colocation is off for the node, when its NodeMetric is missing, and when
the newest sample or the last prediction is too old.
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Final

from api_types.colocation import controller_config as slo
from api_types.kubernetes import times
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import MidPolicy, MidReport, UsableReport
from api_types.node_metric.mid_resource import NoPredictionError
from manager.cache import store
from manager.mid_resource import clock_skew
from manager.mid_resource.reasons import Reason

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
    degrade_after: dt.timedelta
    node_metric_exists: bool
    exists_since: dt.datetime | None
    """Creation time of the Node or its NodeMetric, whichever is younger: older samples are of an earlier object."""
    sample_time: dt.datetime | None
    usable: UsableReport | None
    """Amounts of the newest report; None where it holds no prediction and the mode needs one, or was refused."""
    refused: str | None
    """Fault of the newest report, where it holds an impossible value."""
    last_usable: dt.datetime | None
    """Sample time of the last report that could be used."""
    clock_fault: str = ""
    """Fault of the node's clock, in words; empty where it is right, or not known."""


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
    last_usable: dt.datetime | None = None,
) -> DecisionInputs:
    """Gather the inputs of one node.

    `last_usable` is what this process remembers; the node's status annotation may hold a later time.
    """
    report = (metric.status if metric else None) or MidReport()
    usable, refused = _read(report, policy)
    born = [store.created(each) for each in (node, metric) if each is not None]
    known_times = [last_usable, times.parse_rfc3339_or_none(node.mid_status.sample if node.mid_status else None)]
    return DecisionInputs(
        enabled=enabled,
        degrade_after=degrade_after,
        node_metric_exists=metric is not None,
        exists_since=max((time for time in born if time), default=None),
        sample_time=times.parse_rfc3339_or_none(report.update_time),
        usable=usable,
        refused=refused,
        last_usable=max((time for time in known_times if time), default=None),
        clock_fault=clock_skew.fault(clock_skew.skew(metric)) if metric is not None else "",
    )


def _read(report: MidReport, policy: MidPolicy) -> tuple[UsableReport | None, str | None]:
    try:
        return mid_report.usable_report(report, policy), None
    except NoPredictionError:
        return None, None
    except mid_report.BadReport as error:
        return None, str(error)


def decide(inputs: DecisionInputs, now: dt.datetime) -> Decision:
    """Decide for one node."""
    return _without_report(inputs, now) or _by_age(inputs, now) or _by_content(inputs, now)


def _without_report(inputs: DecisionInputs, now: dt.datetime) -> Decision | None:
    if not inputs.enabled:
        return Decision(Action.WITHDRAW, Reason.COLOCATION_DISABLED)
    if not inputs.node_metric_exists:
        return Decision(Action.WITHDRAW, Reason.NODE_METRIC_MISSING)
    since, sample = inputs.exists_since, inputs.sample_time
    if sample is not None and (since is None or sample >= since):
        return None
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
        return _unusable(inputs, now, Reason.REPORT_REFUSED, _with_clock(detail, inputs))
    if is_degraded(sample, inputs.degrade_after, now):
        detail = _with_clock(f"sample of {times.format_rfc3339(sample)}", inputs)
        return Decision(Action.WITHDRAW, Reason.SAMPLE_TOO_OLD, detail)
    return None


def _with_clock(detail: str, inputs: DecisionInputs) -> str:
    return f"{detail}; {inputs.clock_fault}" if inputs.clock_fault else detail


def _by_content(inputs: DecisionInputs, now: dt.datetime) -> Decision:
    if inputs.refused is not None:
        return _unusable(inputs, now, Reason.REPORT_REFUSED, inputs.refused)
    if inputs.usable is None:
        return _unusable(inputs, now, Reason.NO_PREDICTION, "")
    assert inputs.sample_time is not None
    return Decision(Action.CALCULATE, Reason.CALCULATED, changes_at=inputs.sample_time + inputs.degrade_after)


def _unusable(inputs: DecisionInputs, now: dt.datetime, keep: Reason, detail: str) -> Decision:
    """Keep the published values until the last usable report is older than `degradeTimeMinutes`, then withdraw."""
    last = inputs.last_usable
    if last is None or last > now + FUTURE_TOLERANCE or is_degraded(last, inputs.degrade_after, now):
        return Decision(Action.WITHDRAW, Reason.PREDICTION_TOO_OLD, detail)
    return Decision(Action.KEEP, keep, detail, changes_at=last + inputs.degrade_after)


def is_degraded(sample: dt.datetime | None, degrade_after: dt.timedelta, now: dt.datetime) -> bool:
    """Check whether a sample is missing, or older than `degrade_after`. A sample of exactly that age still counts."""
    return sample is None or now - sample > degrade_after

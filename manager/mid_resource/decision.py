"""Whether a node's Mid resources are calculated anew, kept as they are, or withdrawn. Pure.

Absent is not zero: a report that cannot be used takes nothing away until what was last good is `degradeTimeMinutes`
old. Source: design 4.4 (withdrawal), koordinator-core 4.9 (degraded).
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Final

from api_types.kubernetes import times
from manager.mid_resource.inputs import DecisionInputs
from manager.mid_resource.reasons import Reason

FUTURE_TOLERANCE: Final = dt.timedelta(minutes=5)
"""A sample may be this far ahead of our clock: clocks of nodes drift, and a minute or two is no nonsense."""


class Action(enum.Enum):
    """What to do."""

    CALCULATE = enum.auto()
    KEEP = enum.auto()
    WITHDRAW = enum.auto()


@dataclass(frozen=True)
class Decision:
    """What to do, why, and when time alone would change the answer."""

    verdict: Action
    reason: Reason
    detail: str = ""
    changes_at: dt.datetime | None = None


def judge(evidence: DecisionInputs, now: dt.datetime) -> Decision:
    """Decide for one node."""
    return _without_report(evidence, now) or _by_age(evidence, now) or _by_content(evidence, now)


def _without_report(evidence: DecisionInputs, now: dt.datetime) -> Decision | None:
    if not evidence.enabled:
        return Decision(Action.WITHDRAW, Reason.COLOCATION_DISABLED)
    if not evidence.node_metric_exists:
        return Decision(Action.WITHDRAW, Reason.NODE_METRIC_MISSING)
    since, sample = evidence.exists_since, evidence.sample_time
    if sample is not None and (since is None or sample >= since):
        return None
    if since is None or is_degraded(since, evidence.degrade_after, now):
        return Decision(Action.WITHDRAW, Reason.NEVER_REPORTED)
    return Decision(Action.KEEP, Reason.AWAITING_FIRST_REPORT, changes_at=since + evidence.degrade_after)


def _by_age(evidence: DecisionInputs, now: dt.datetime) -> Decision | None:
    sample = evidence.sample_time
    assert sample is not None
    if sample > now + FUTURE_TOLERANCE:
        detail = (
            f"status.updateTime: seen {times.format_rfc3339(sample)}, want no later than {times.format_rfc3339(now)}"
        )
        return _unusable(evidence, now, Reason.REPORT_REFUSED, detail)
    if is_degraded(sample, evidence.degrade_after, now):
        return Decision(Action.WITHDRAW, Reason.SAMPLE_TOO_OLD, f"sample of {times.format_rfc3339(sample)}")
    return None


def _by_content(evidence: DecisionInputs, now: dt.datetime) -> Decision:
    if evidence.refused is not None:
        return _unusable(evidence, now, Reason.REPORT_REFUSED, evidence.refused)
    if not evidence.usable:
        return _unusable(evidence, now, Reason.NO_PREDICTION, "")
    assert evidence.sample_time is not None
    return Decision(Action.CALCULATE, Reason.CALCULATED, changes_at=evidence.sample_time + evidence.degrade_after)


def _unusable(evidence: DecisionInputs, now: dt.datetime, keep: Reason, detail: str) -> Decision:
    """Keep what is published until the last report that could be used is `degradeTimeMinutes` old."""
    last = evidence.last_usable
    if last is None or last > now + FUTURE_TOLERANCE or is_degraded(last, evidence.degrade_after, now):
        return Decision(Action.WITHDRAW, Reason.PREDICTION_TOO_OLD, detail)
    return Decision(Action.KEEP, keep, detail, changes_at=last + evidence.degrade_after)


def is_degraded(sample: dt.datetime | None, degrade_after: dt.timedelta, now: dt.datetime) -> bool:
    """Whether a sample is too old to count, or there is none. The deadline itself is still good."""
    return sample is None or now - sample > degrade_after

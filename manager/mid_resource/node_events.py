"""Events on a node about its Mid resources. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from api_types import names
from manager.mid_resource import calculator
from manager.mid_resource.evaluation import PUBLISHING
from manager.mid_resource.reasons import REDUCED, TEXTS, Reason

_NOTABLE_FALL_DIVISOR = 10  # a tenth of the node


class Event(NamedTuple):
    """Severity, reason and message."""

    severity: Literal["Normal", "Warning"]
    reason: str
    message: str


def of_reason(before: str, target: calculator.Target, published: calculator.Published, detail: str) -> Event | None:
    """Return the Event about a changed reason: withdrawals, refusals and the return from them.

    Calculated and kept alternate in normal operation, which needs no Event.
    """
    now = target.reason
    if before == now or not _is_notable(before, now, published):
        return None
    is_normal = now in (*PUBLISHING, Reason.COLOCATION_DISABLED, Reason.SHADOW)
    is_normal = is_normal and now is not Reason.CALCULATED_WITHOUT_PREDICTION
    values = ", ".join(f"{mid} {'none' if value is None else value}" for mid, value in sorted(target.values.items()))
    message = f"Mid resources {TEXTS[now]}{f' ({detail})' if detail else ''}: {values}"
    return Event("Normal" if is_normal else "Warning", now.value, message)


def _is_notable(before: str, now: Reason, published: calculator.Published) -> bool:
    if now is Reason.CALCULATED_WITHOUT_PREDICTION:
        return not published.is_empty()
    if now in PUBLISHING:
        return before not in (*PUBLISHING, Reason.NO_PREDICTION) or before == Reason.CALCULATED_WITHOUT_PREDICTION
    if now in (Reason.NO_PREDICTION, Reason.AWAITING_FIRST_REPORT):
        return False
    return now in (Reason.REPORT_REFUSED, Reason.NEVER_REPORTED) or not published.is_empty()


def of_fall(target: calculator.Target, published: calculator.Published) -> Event | None:
    """Return the Event about calculated resources that fall by more than a tenth of the node's allocatable.

    A withdrawal has an Event of its own.
    """
    if target.reason not in PUBLISHING:
        return None
    falls = []
    for mid in names.MID_RESOURCES:
        before, after, line = published.allocatable.get(mid, 0), target.values[mid] or 0, target.lines[mid]
        if (before - after) * _NOTABLE_FALL_DIVISOR > (line.allocatable or 0):
            bound = f" (Mid pods request {line.allocated_mid})" if line.allocated_mid else ""
            falls.append(f"{mid} from {before} to {after} of {line.allocatable}{bound}")
    if not falls:
        return None
    lost = f"Mid resources fell by more than a tenth of the node: {', '.join(falls)}"
    message = f"{lost}; `koordctl explain node` shows every term"
    return Event("Normal", REDUCED, message)

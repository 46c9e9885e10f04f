"""Reason codes of a node's Mid resources: one stable code and one text each.

The same codes are in the status annotation (whose head is a condition, decision 0009), in Events, in metrics and
in the output of `koordctl explain node`. Codes are never renamed: alerts refer to them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from api_types.colocation.problem import Effect
from api_types.node_metric import mid_status


class Reason(enum.StrEnum):
    """Stable code."""

    CALCULATED = "Calculated"
    CALCULATED_FROM_RECLAIMABLE = "CalculatedFromReclaimable"
    CALCULATED_WITHOUT_PREDICTION = "CalculatedWithoutPrediction"
    STATIC = "Static"
    AWAITING_FIRST_REPORT = "AwaitingFirstReport"
    NO_PREDICTION = "NoPrediction"
    REPORT_REFUSED = "ReportRefused"
    COLOCATION_DISABLED = "ColocationDisabled"
    NODE_METRIC_MISSING = "NodeMetricMissing"
    NEVER_REPORTED = "NeverReported"
    SAMPLE_TOO_OLD = "SampleTooOld"
    SHADOW = "Shadow"
    NODE_WITHOUT_RESOURCES = "NodeWithoutResources"
    NO_CONFIGURATION = "NoConfiguration"


class Status(enum.StrEnum):
    """Status of the condition: whether the newest report decides the published values."""

    CALCULATED = "True"
    KEPT = "Unknown"
    WITHDRAWN = mid_status.WITHDRAWN


_CONDITIONS: Final[Mapping[Reason, tuple[Status, str]]] = {
    Reason.CALCULATED: (Status.CALCULATED, "calculated from the predicted peak of the Prod pods"),
    Reason.CALCULATED_FROM_RECLAIMABLE: (
        Status.CALCULATED,
        "calculated from the reclaimable amount that the agent reports",
    ),
    Reason.CALCULATED_WITHOUT_PREDICTION: (
        Status.CALCULATED,
        "calculated with nothing reclaimable: there is no prediction, or the last one is older than degradeTimeMinutes",
    ),
    Reason.STATIC: (Status.CALCULATED, "a fixed share of the node's capacity (midReclaimMode static)"),
    Reason.AWAITING_FIRST_REPORT: (Status.KEPT, "kept: the agent has not reported on this node yet"),
    Reason.NO_PREDICTION: (Status.KEPT, "kept: the newest report carries no prediction"),
    Reason.REPORT_REFUSED: (Status.KEPT, "kept: the newest report holds an impossible value"),
    Reason.COLOCATION_DISABLED: (Status.WITHDRAWN, "withdrawn: colocation is not enabled for this node"),
    Reason.NODE_METRIC_MISSING: (Status.WITHDRAWN, "withdrawn: the node has no NodeMetric"),
    Reason.NEVER_REPORTED: (Status.WITHDRAWN, "withdrawn: the agent has not reported for degradeTimeMinutes"),
    Reason.SAMPLE_TOO_OLD: (Status.WITHDRAWN, "withdrawn: the newest usable sample is older than degradeTimeMinutes"),
    Reason.SHADOW: (Status.WITHDRAWN, "withdrawn: midPublish is shadow for this node"),
    Reason.NODE_WITHOUT_RESOURCES: (
        Status.KEPT,
        "kept: the node has no cpu or no memory in capacity or allocatable yet",
    ),
    Reason.NO_CONFIGURATION: (Status.KEPT, "kept: no usable configuration exists yet"),
}
STATUS: Final = {reason: status for reason, (status, _) in _CONDITIONS.items()}
"""The status of each code."""
TEXTS: Final = {reason: text for reason, (_, text) in _CONDITIONS.items()}
"""The text of each code."""


RESERVATION_IGNORED: Final = "ReservationIgnored"
"""Code beside the reason, where the node's reservation annotation is invalid: values are calculated without it.
The agent reports the same in its conditions (docs/contributing/decisions/0007)."""

PROBLEM_CODES: Final = {Effect.LAYER_IGNORED: "NodeStrategyIgnored", Effect.ADVICE: "NodeStrategyAdvice"}
"""Reason of the Event about a problem in an annotation or a label of a node, by the effect."""

CLOCK_WRONG: Final = "NodeClockWrong"
MANAGER_CLOCK_WRONG: Final = "ManagerClockWrong"
"""Reason of the Event about a node whose clock is wrong."""

REDUCED: Final = "MidResourceReduced"
"""Reason of the Event about a fall of calculated Mid resources by more than a tenth of the node's allocatable."""


class Closed(enum.StrEnum):
    """Why a node accepts no new Mid pod, whatever is calculated: a stable code."""

    NO = ""
    FROZEN = "Frozen"
    LEAVING = "Leaving"
    MID_ONLY = "MidOnly"
    EVICTED = "Evicted"
    SCALE_DOWN_CANDIDATE = "ScaleDownCandidate"
    CORDONED = "Cordoned"


CLOSED_TEXTS: Final[Mapping[Closed, str]] = {
    Closed.NO: "",
    Closed.FROZEN: "midEmergency is freeze or drain: no node accepts new Mid pods",
    Closed.LEAVING: "the node is about to be removed: its Mid pods leave, and new ones are accepted only if it stays",
    Closed.MID_ONLY: (
        "only Mid pods and pods of DaemonSets run on the node: it is emptied for the autoscaler, and accepts new Mid "
        "pods once another pod runs there or the autoscaler keeps it"
    ),
    Closed.SCALE_DOWN_CANDIDATE: "cluster-autoscaler may remove the node soon: running Mid pods stay",
    Closed.CORDONED: "the node is cordoned: running Mid pods stay unless its memory is high",
    Closed.EVICTED: "a Mid pod was evicted: new ones are accepted once there was enough for midEviction.readmitSeconds",
}
"""The text of each code."""
PUBLISHING: Final = tuple(reason for reason in Reason if STATUS[reason] is Status.CALCULATED)

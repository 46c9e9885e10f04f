"""Decide whether a node's Mid resources are calculated, kept or withdrawn, by its objects and its policy. Pure.

Absent is not zero: a report that cannot be used, and a NodeMetric that is missing or cannot be read, withdraw nothing
until the last usable sample is older than `degradeTimeMinutes`. A report without a prediction changes nothing until the
last prediction is that old; then nothing is reclaimable, and the share of what no pod requests is still offered. A
withdrawal happens when colocation is off for the node, when that time is over, whatever else can be read or written,
and when a node that has Mid is switched to shadow.
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_eviction, mid_report, mid_status
from api_types.node_metric.mid_eviction import MidEvictionRecord
from api_types.node_metric.mid_report import MidPolicy, MidReport, UsableReport
from api_types.node_metric.mid_status import MidStatus
from manager.cache import store
from manager.mid_resource.formula import PublishedMid
from manager.mid_resource.reasons import RESERVATION_IGNORED, Closed, Reason, Status
from manager.slo_config.strategy import NodeStrategy, mid_colocation_policy, once_per_strategy

CLOCK_TOLERANCE: Final = dt.timedelta(seconds=60)
"""Far above the delay of a report, and below the smallest `degradeTimeMinutes` but for the limit itself."""
_CENTURY_SECONDS: Final = 100 * 365 * 24 * 3600

FUTURE_TOLERANCE: Final = dt.timedelta(minutes=5)
"""How far a sample may be ahead of the manager's clock: clocks of nodes drift by a minute or two."""
LEAVING_TAINTS: Final = frozenset({
    "karpenter.sh/disrupted",
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "cloud.google.com/impending-node-termination",
})  # fmt: skip
"""Keys of taints of a node that is removed within seconds or minutes. Karpenter sets its own for a spot
interruption too. A rebalance recommendation is none: such a node often stays."""
CANDIDATE_TAINT: Final = "DeletionCandidateOfClusterAutoscaler"
CORDON_TAINT: Final = "node.kubernetes.io/unschedulable"
_KEPT_BY_ANNOTATION: Final = (names.ANNOTATION_DO_NOT_DISRUPT, names.ANNOTATION_SCALE_DOWN_DISABLED)


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
    return mid_report.mid_policy(mid_colocation_policy(strategy))


def spec_policy(metric: store.StoredNodeMetric) -> slo.MidColocationPolicy | None:
    """Return the policy that the manager wrote for this node; None where it is absent or invalid."""
    wire = (metric.spec or {}).get("midColocationPolicy")
    try:
        return slo.MidColocationPolicy.model_validate(wire) if wire is not None else None
    except ValueError:
        return None


@once_per_strategy
def refresh_period(strategy: NodeStrategy) -> dt.timedelta:
    """Return the age at which a node is written again, a century at most: more would exceed the range of datetime."""
    return dt.timedelta(seconds=min(strategy.strategy.update_time_threshold_seconds or 0, _CENTURY_SECONDS))


def gather(
    node: store.StoredNode,
    metric: store.StoredNodeMetric | None,
    policy: MidPolicy,
    *,
    enabled: bool,
    last: LastSamples = LastSamples(),  # noqa: B008  # immutable
) -> DecisionInputs:
    """Gather the inputs of one node.

    `last` is what this process remembers; the node's status annotation may hold later times.
    """
    report = (metric.status if metric else None) or MidReport()
    usable, refused = None, None
    try:
        usable = mid_report.usable_report(report, policy)
    except mid_report.BadReport as error:
        refused = str(error)
    objects = [item.metadata for item in (node, metric) if item is not None]
    born = [times.parse_rfc3339_or_none(metadata.creation_timestamp) for metadata in objects]
    written, is_static = node.mid_status, policy.static_percent is not None
    # values that follow from no prediction are not kept for one
    was_predicted = written is not None and written.status != Status.WITHDRAWN and written.reason != Reason.STATIC
    usable_times = last.usable, times.parse_rfc3339_or_none(mid_status.last_usable(written))
    prediction_times = last.prediction, times.parse_rfc3339_or_none(written.prediction if written else None)
    return DecisionInputs(
        enabled=enabled,
        withdraws_for_shadow=written is not None and not policy.publishes,
        degrade_after=dt.timedelta(seconds=min(policy.degrade_seconds, _CENTURY_SECONDS)),
        node_metric_exists=metric is not None,
        exists_since=max((time for time in born if time), default=None),
        sample_time=times.parse_rfc3339_or_none(report.update_time),
        usable=usable,
        refused=refused,
        predicts=is_static or (usable is not None and usable.has_prediction()),
        last_usable=max((time for time in usable_times if time), default=None),
        last_prediction=max((time for time in prediction_times if time and was_predicted), default=None),
        clock_fault=clock_fault(metric) if metric is not None else "",
    )


def clock_fault(metric: store.StoredNodeMetric) -> str:
    """Describe a node's clock that differs from the apiserver's by more than the tolerance; empty for any other.

    The age of a sample is a difference of two clocks: the node's wrote its time, the manager's reads it. The apiserver
    records by its own clock when a status was written, within seconds of the sample. A wrong clock is only reported: it
    makes no sample younger, so the error is on the safe side, or within the tolerance for times in the future.

    Each client that wrote a part of the status has a time of its own. The nearest one counts, so that a later change
    by another client is not taken for a slow clock.
    """
    sample = times.parse_rfc3339_or_none(metric.status.update_time if metric.status else None)
    if sample is None:
        return ""
    written = (
        times.parse_rfc3339_or_none(entry.time)
        for entry in metric.metadata.managed_fields or ()
        if entry.subresource == "status"
    )
    ahead = min((sample - time for time in written if time is not None), key=abs, default=None)
    if ahead is None or abs(ahead) <= CLOCK_TOLERANCE:
        return ""
    kind = "fast" if ahead > dt.timedelta() else "slow"
    return f"the clock of the node is {abs(ahead).total_seconds():.0f} s {kind}"


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


def decide(inputs: DecisionInputs, now: dt.datetime) -> Decision:
    """Decide for one node."""
    if early := _without_report(inputs, now):
        return early
    sample = inputs.sample_time
    assert sample is not None
    clock = f"; {inputs.clock_fault}" if inputs.clock_fault else ""
    refused = inputs.refused
    if sample > now + FUTURE_TOLERANCE:
        reported, latest = times.format_rfc3339(sample), times.format_rfc3339(now)
        refused = f"status.updateTime: seen {reported}, want no later than {latest}{clock}"
    elif now - sample > inputs.degrade_after:
        return Decision(Action.WITHDRAW, Reason.SAMPLE_TOO_OLD, f"sample of {times.format_rfc3339(sample)}{clock}")
    if refused is not None:
        return _refused(inputs, now, refused)
    too_old_at = sample + inputs.degrade_after
    if inputs.predicts:
        return Decision(Action.CALCULATE, Reason.CALCULATED, changes_at=too_old_at)
    last = inputs.last_prediction
    if last is not None and _counts(last, inputs, now):
        return Decision(Action.KEEP, Reason.NO_PREDICTION, changes_at=min(last + inputs.degrade_after, too_old_at))
    detail = f"last prediction of {times.format_rfc3339(last)}" if last else "no prediction yet"
    return Decision(Action.CALCULATE, Reason.CALCULATED_WITHOUT_PREDICTION, detail, changes_at=too_old_at)


def decide_by_spec(node: store.StoredNode, metric: store.StoredNodeMetric | None, now: dt.datetime) -> Decision | None:
    """Decide on the newest report, by the policy in the NodeMetric's spec; None where the spec has none."""
    policy = spec_policy(metric) if metric else slo.MidColocationPolicy(enable=True)
    if policy is None:
        return None
    return decide(gather(node, metric, mid_report.mid_policy(policy), enabled=bool(policy.enable)), now)


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


class Departure(NamedTuple):
    """Why a node accepts no new Mid pod, by its own object; `cause` is what shows it."""

    closed: Closed = Closed.NO
    cause: str = ""

    @property
    def is_leaving(self) -> bool:
        """Check whether the node is about to be removed, so that its Mid pods have to leave."""
        return self.closed is Closed.LEAVING


STAYS: Final = Departure()


def classify(node: pods.Node) -> Departure:
    """Return whether a node leaves, may leave, or is cordoned; the strongest sign counts.

    A node that is about to be removed gives up its Mid pods before they are killed with it. Cordoning promises only
    that nothing new comes: `kubectl drain` evicts the pods itself, and `kubectl cordon` alone leaves them. A candidate
    of cluster-autoscaler has only a soft taint, which is taken back when the node is needed.
    """
    if node.metadata.deletion_timestamp is not None:
        return Departure(Closed.LEAVING, f"deletionTimestamp {node.metadata.deletion_timestamp}")
    taints = {taint.key for taint in node.spec.taints or ()}
    if leaving := sorted(LEAVING_TAINTS & taints):
        return Departure(Closed.LEAVING, f"taint {leaving[0]}")
    if node.spec.unschedulable or CORDON_TAINT in taints:
        return Departure(Closed.CORDONED, "spec.unschedulable" if node.spec.unschedulable else f"taint {CORDON_TAINT}")
    if CANDIDATE_TAINT in taints:
        return Departure(Closed.SCALE_DOWN_CANDIDATE, f"taint {CANDIDATE_TAINT}")
    return STAYS


def why_kept(node: pods.Node, autoscaler: str) -> str:
    """Return why no autoscaler would remove a node, however empty it is; empty where one would.

    `autoscaler` is `karpenter`, which removes only nodes that it made, or any other one.
    """
    annotations, labels = pods.annotation_map(node.metadata), pods.label_map(node.metadata)
    for name in _KEPT_BY_ANNOTATION:
        if annotations.get(name) == "true":
            return f"its annotation {name} is true"
    if names.LABEL_CONTROL_PLANE in labels:
        return f"it has the label {names.LABEL_CONTROL_PLANE}"
    if autoscaler == "karpenter" and names.LABEL_NODE_POOL not in labels:
        return f"it lacks the label {names.LABEL_NODE_POOL}: Karpenter did not make it"
    return ""


def why_closed(leaves: Departure, record: MidEvictionRecord | None, strategy: NodeStrategy) -> Closed:
    """Return the first reason of: the whole cluster, the node leaves, the eviction annotation, the node may leave."""
    if strategy.emergency != "none":
        return Closed.FROZEN
    if leaves.closed is Closed.LEAVING:
        return leaves.closed
    if record is not None:
        return Closed.MID_ONLY if record.trigger == mid_eviction.MID_ONLY else Closed.EVICTED
    return leaves.closed


@dataclass
class Case:
    """One node at one time, decided."""

    name: str
    node: store.StoredNode
    report: MidReport
    strategy: NodeStrategy
    policy: MidPolicy
    published: PublishedMid
    inputs: DecisionInputs
    decision: Decision
    now: dt.datetime
    remembered: MidEvictionRecord | None = None
    """Eviction annotation of a node that this process closed, while another client has removed it."""
    written: MidStatus | None = field(init=False)
    """The status annotation of the node."""
    record: MidEvictionRecord | None = field(init=False)
    """The eviction annotation: pods that the manager evicted leave room before a report shows it."""
    closed: Closed = field(init=False)
    """Why the node accepts no new Mid pod."""
    is_shadow: bool = field(init=False)
    """Whether nothing is written to the node: Mid is in shadow, and no Mid of this manager is left there."""

    is_stripped: bool = field(init=False)
    detail: str = field(init=False)
    """Detail of the decision, and the fault of a reservation that a value was calculated without."""

    def __post_init__(self) -> None:
        """Read the annotations of the node."""
        self.written = self.node.mid_status
        annotations = self.node.metadata.annotations or {}
        record = mid_eviction.eviction_record(self.node) if names.ANNOTATION_MID_EVICTION in annotations else None
        self.is_stripped = record is None and self.remembered is not None
        self.record = record or self.remembered
        departure = classify(self.node)
        self.closed = why_closed(departure, self.record, self.strategy)
        self.is_shadow = not self.policy.publishes and self.written is None
        details = [self.decision.detail] if self.decision.detail else []
        if self.strategy.enabled and departure.closed:
            details.append(f"{departure.closed}: {departure.cause}")
        if self.decision.action is Action.CALCULATE and names.ANNOTATION_NODE_RESERVATION in annotations:
            problems = node_reservation.annotated(annotations).problems
            details += [f"{RESERVATION_IGNORED}: {problem}" for problem in problems]
        self.detail = "; ".join(details)

"""Make the target of a node as decided: calculated, kept or withdrawn, with the pod lists that this takes.

Pods are listed where the agent does not report their requests, and while Mid shrinks.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, priority_and_qos, quantities, times
from api_types.kubernetes.priority_and_qos import PodT, compact
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_report import Requests, UsableReport
from api_types.node_metric.mid_resource import Terms
from api_types.node_metric.mid_status import MidStatus
from apiserver_client import errors, objects, resources, session
from manager.cache import store
from manager.mid_resource import decision, formula
from manager.mid_resource.decision import Action, Case, Decision, DecisionInputs, LastSamples
from manager.mid_resource.events import Event, clock_event, fall_event, reason_event
from manager.mid_resource.formula import FROM_PODS, FROM_REPORT, UNKNOWN, Period, Target
from manager.mid_resource.patch import WritePace
from manager.slo_config.strategy import NodeStrategy

log = logging.getLogger(__name__)


_NO_FLOOR: Final[Mapping[str, int]] = {}


class MidPod(NamedTuple):
    """Mid requests of a pod that the kubelet admitted, and the time of its binding; None where it has none."""

    requests: pods.Resources
    bound_at: dt.datetime | None
    is_leaving: bool = False
    """Whether it terminates: no kubelet needs its resources to be published."""


class NodePods(NamedTuple):
    """Requests of the pods on a node."""

    prod: pods.Resources
    below_prod: pods.Resources
    mid: tuple[MidPod, ...]
    is_old: bool = False
    """Whether these are of an earlier list, because the newest one failed: a report may know better."""

    def requests(self) -> Requests:
        """Sum the requests of all pods."""
        return Requests(self.prod, _sum(pod.requests for pod in self.mid), self.below_prod)

    def mid_bound_until(self, time: dt.datetime) -> pods.Resources:
        """Sum the requests of the Mid pods that stay and were bound no later than in the second of `time`."""
        end = time.replace(microsecond=0)  # the precision of the times in conditions
        stay = (pod for pod in self.mid if not pod.is_leaving)
        return _sum(pod.requests for pod in stay if pod.bound_at is not None and pod.bound_at <= end)


class ListedPods(NamedTuple):
    """The newest pod list of a node: at most one for a sample, and without one at most one in `period`."""

    sample: dt.datetime | None
    at: dt.datetime
    pods: NodePods | None

    def counts(
        self, sample: dt.datetime | None, now: dt.datetime, since: dt.datetime | None, period: dt.timedelta
    ) -> bool:
        """Check whether the list need not be renewed.

        With `since`, a list from before that time is renewed: it lacks pods that were bound until then.
        """
        is_recent = self.sample == sample if sample is not None else now - period < self.at <= now
        return is_recent and not (since is not None and self.at < since <= now)


async def list_node(
    api: session.Session,
    node: str,
    newly_evicted: Callable[[], Collection[str]] = frozenset,
    last_floor: Mapping[str, int] = _NO_FLOOR,
) -> NodePods:
    """List a node's pods once, from the apiserver's cache. Raises errors.ApiServerError.

    That cache may not show yet that some pods terminate; `newly_evicted` returns their UIDs.
    """
    return summed(await bound_pods(api, node, pods.Pod), newly_evicted(), last_floor)


async def bound_pods(api: session.Session, node: str, decode: type[PodT]) -> list[PodT]:
    """List a node's pods, each without what decides nothing; one that cannot be read is left out.

    Raises errors.ApiServerError.
    """
    listing = await objects.list_all(
        api, resources.PODS, field_selector=f"spec.nodeName={node}", decode=decode, from_cache=True, reduce=compact,
        on_unreadable=lambda error: log.warning("node %s: a pod is left out: %s", node, error),
    )  # fmt: skip
    return listing.items


def summed(
    bound: Iterable[pods.Pod], evicted: Collection[str] = (), last_floor: Mapping[str, int] = _NO_FLOOR
) -> NodePods:
    """Sum the native requests by class, and read the Mid requests of pods that the kubelet admitted.

    Native ones count from the binding on, and a pod of unknown priority class counts as Prod: they are not given to
    Mid. Of Mid, only what the kubelet admitted runs: `spec.nodeName` alone may be written by a pod's author.
    An amount that cannot be read leaves nothing unallocated where it is native, and keeps `last_floor` where of Mid.
    """
    prod: pods.Resources = {}
    below_prod: pods.Resources = {}
    mid: list[MidPod] = []
    for pod in bound:
        if pods.is_terminal(pod):
            continue
        requests = pods.requests(pod.spec)
        mid_requests = {name: requests[name] for name in names.MID_RESOURCES if requests.get(name, 0) > 0}
        if mid_requests and pods.is_admitted(pod):
            is_leaving = pod.metadata.deletion_timestamp is not None or pod.metadata.uid in evicted
            mid.append(MidPod(mid_requests, _bound_at(pod), is_leaving))
        is_prod = priority_and_qos.priority_class(pod) is priority_and_qos.PriorityClass.PROD
        native = prod if is_prod else below_prod
        for name in (names.CPU, names.MEMORY):
            native[name] = min(native.get(name, 0) + requests.get(name, 0), quantities.UNKNOWN)
    return NodePods(prod, below_prod, tuple(_known(mid, last_floor)))


def _known(mid: Sequence[MidPod], last_floor: Mapping[str, int]) -> Iterator[MidPod]:
    """Yield the pods; the first one whose amount is unknown has what the others leave of the last floor."""
    left = dict(last_floor)
    for pod in mid:
        for name, amount in pod.requests.items():
            left[name] = left.get(name, 0) - (amount if amount != quantities.UNKNOWN else 0)
    for pod in mid:
        yield pod._replace(
            requests={
                name: amount if amount != quantities.UNKNOWN else max(left.pop(name, 0), 0)
                for name, amount in pod.requests.items()
            }
        )


def _bound_at(pod: pods.Pod) -> dt.datetime | None:
    for condition in pod.status.conditions or ():
        if (condition.type, condition.status) == ("PodScheduled", "True"):
            return times.parse_rfc3339_or_none(condition.last_transition_time)
    return None


def _sum(requests: Iterable[pods.Resources]) -> pods.Resources:
    total = dict.fromkeys(names.MID_RESOURCES, 0)
    for amounts in requests:
        for name, amount in amounts.items():
            total[name] += amount
    return total


class MidNodeState:
    """What the controller remembers of one Node object; a new leader begins with the status annotation."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.pace = WritePace()
        self.listed: ListedPods | None = None
        """The newest list; None has the pods listed again."""
        self.period: Period | None = None
        """Time in which Mid shrinks."""
        self.has_ended_period = False
        """Whether one has ended here: the annotation may hold the old time until its next write."""
        self.is_observed = False
        """Whether the evictor has a state of the node."""
        self._last_samples = LastSamples()
        self._gathered: tuple[object, object, object, DecisionInputs] | None = None
        self._last_reason: str | None = None
        self._is_clock_reported = False

    def decide(
        self,
        node: store.StoredNode,
        metric: store.StoredNodeMetric | None,
        strategy: NodeStrategy,
        now: dt.datetime,
        *,
        is_preview: bool = False,
    ) -> tuple[DecisionInputs, Decision]:
        """Gather the inputs and decide; a preview is followed by a reconcile, which gathers the same ones only once."""
        if (gathered := self._gathered) and gathered[0] is node and gathered[1] is metric and gathered[2] is strategy:
            inputs = gathered[3]
        else:
            policy = decision.mid_policy(strategy)
            inputs = decision.gather(node, metric, policy, enabled=strategy.enabled, last=self._last_samples)
        self._gathered = (node, metric, strategy, inputs) if is_preview else None
        decided = decision.decide(inputs, now)
        sample = inputs.sample_time
        if not is_preview and decided.action is Action.CALCULATE and sample is not None:
            predicts = inputs.usable is not None and inputs.usable.has_prediction()
            self._last_samples = LastSamples(sample, sample if predicts else self._last_samples.prediction)
        return inputs, decided

    def events(self, case: Case, target: Target, *, is_written: bool) -> list[Event]:
        """Return the Events of a reconcile: a changed reason, a large fall, a clock that is wrong since.

        Reason and fall have one once they are written: an Event names only what the node has.
        """
        possible: list[Event | None] = []
        if is_written:
            before = self._last_reason or (case.written.reason if case.written else "")
            self._last_reason = target.reason
            possible = [reason_event(before, target, case.published, case.detail), fall_event(target, case.published)]
        fault = case.inputs.clock_fault
        if fault and not self._is_clock_reported:
            possible.append(clock_event(fault))
        self._is_clock_reported = bool(fault)
        return [event for event in possible if event is not None]

    def continue_or_begin_period(
        self, written: MidStatus | None, now: dt.datetime, sample: dt.datetime | None
    ) -> Period:
        """Return the period in which Mid shrinks; begin one where there is none."""
        self.period = formula.continue_or_begin(self.period, None if self.has_ended_period else written, now, sample)
        return self.period


@dataclass(eq=False)
class Targets:
    """Makes targets. `newly_evicted` returns the UIDs of pods that leave although a list may not show it yet."""

    api: session.Session
    list_period: dt.timedelta
    newly_evicted: Callable[[], Collection[str]] = frozenset

    async def make(self, case: Case, state: MidNodeState) -> tuple[Target, str]:
        """Return the values to publish, and the source of the requests in them."""
        reason = case.decision.reason
        match case.decision.action:
            case Action.KEEP:
                before = case.written.requests_from if case.written else ""
                target = formula.kept(case.published, reason, case.written)
                return await self._without_room(case, state, target) if case.closed else target, before
            case Action.WITHDRAW:
                return await self._withdrawn(case, state)
            case Action.CALCULATE:
                assert case.inputs.usable is not None
                return await self._calculated(case, state, case.inputs.usable)

    async def _list(
        self, case: Case, state: MidNodeState, sample: dt.datetime | None, since: dt.datetime | None = None
    ) -> NodePods | None:
        """Return the pods of a node as of a sample, or of the last period where `sample` is None.

        Where a list fails, return the last known pods of the node; None where none are known.
        """
        last = state.listed
        if last is not None and last.counts(sample, case.now, since, self.list_period):
            return last.pods
        listed = last.pods._replace(is_old=True) if last and last.pods else None
        try:
            listed = await list_node(self.api, case.name, self.newly_evicted, last_floor(case))
        except errors.ApiServerError as error:
            log.warning("node %s: cannot list its pods, the last known Mid requests count: %s", case.name, error)
        state.listed = ListedPods(sample, case.now, listed)
        return listed

    async def _calculated(self, case: Case, state: MidNodeState, report: UsableReport) -> tuple[Target, str]:
        requests, source = report.requests, FROM_REPORT
        if requests is None:
            counted = await self._list(case, state, case.inputs.sample_time)
            if counted is not None:
                requests, source = counted.requests(), FROM_PODS
            else:
                everything = node_reservation.allocatable(case.node).resources  # so nothing is unallocated
                requests, source = Requests(everything, last_floor(case)), UNKNOWN
        evaluate = functools.partial(
            formula.evaluated, case.node, report, case.policy, requests, sample=case.inputs.sample_time,
            max_increase_percent=case.strategy.strategy.mid_max_increase_percent, closed=case.closed,
        )  # fmt: skip
        target = evaluate()
        shrinks = target.is_short() or (case.closed and any(requests.mid.values()))
        if not shrinks:
            if state.period is not None or not state.has_ended_period:
                state.period, state.has_ended_period = None, True
            return target, source
        period = state.continue_or_begin_period(case.written, case.now, case.inputs.sample_time)
        if not (case.policy.floor or case.record):
            return target, source
        if case.record or period.sample is None or period.sample != case.inputs.sample_time:
            target = evaluate(bound_before=await self._bound_before(case, state, period, requests))
        return dataclasses.replace(target, floor_before=period.since), source

    async def _without_room(self, case: Case, state: MidNodeState, target: Target) -> Target:
        """Return a target of kept values for a closed node. No report shows yet which pods were evicted."""
        if case.record is None:
            return formula.kept_closed(target, last_floor(case), case.closed)
        since = state.continue_or_begin_period(case.written, case.now, None).since
        listed = await self._list(case, state, None, since)
        requested = _no_more_than_reported(case, listed, listed.mid_bound_until(since)) if listed else last_floor(case)
        return dataclasses.replace(formula.kept_closed(target, requested, case.closed), floor_before=since)

    async def _bound_before(
        self, case: Case, state: MidNodeState, period: Period, requests: Requests
    ) -> Mapping[str, int]:
        listed = await self._list(case, state, case.inputs.sample_time, period.since)
        if listed is not None:
            return _no_more_than_reported(case, listed, listed.mid_bound_until(period.since))
        last = last_floor(case)
        return {mid: min(last[mid], requests.mid.get(mid, 0)) for mid in names.MID_RESOURCES}

    async def _withdrawn(self, case: Case, state: MidNodeState) -> tuple[Target, str]:
        """Return the target of a withdrawal, which no failure of a pod list delays.

        The pods of a node without a Mid key are not listed, unless the annotation shows that another client removed it:
        no pod depends on a key that the manager removed, and a node that takes no part costs nothing.
        """
        reason = case.decision.reason
        if not case.policy.floor or case.is_shadow:
            return formula.withdrawn(None, reason), ""
        lines = case.written.resources if case.written else {}
        if case.published.is_empty() and not any(line.published for line in lines.values()):
            return formula.withdrawn(None, reason), ""
        since = state.continue_or_begin_period(case.written, case.now, None).since
        listed = await self._list(case, state, None, since)
        natives = node_reservation.capacity(case.node)
        capacity = {mid: natives.get(native, 0) for native, mid in mid_resource.MID_OF_NATIVE.items()}
        requested: Mapping[str, int] = last_floor(case)
        if listed:
            requested = _no_more_than_reported(case, listed, listed.mid_bound_until(since))
        allocated = listed.requests().mid if listed else {}
        floors = {}
        for mid in names.MID_RESOURCES:
            floor = mid_resource.bounded_floor(requested[mid], capacity[mid])
            bound = requested[mid] if listed else None
            floors[mid] = Terms(
                published=floor, floor=floor, capacity=capacity[mid], allocated_mid=allocated.get(mid),
                bound_before=bound,
            )  # fmt: skip
        return formula.withdrawn(floors, reason, since), FROM_PODS if listed else UNKNOWN


def _no_more_than_reported(case: Case, listed: NodePods, requested: Mapping[str, int]) -> Mapping[str, int]:
    """Limit the requests of a list that could not be renewed to those of the newest report: pods end meanwhile."""
    reported = case.inputs.usable.requests if case.inputs.usable else None
    if not listed.is_old or reported is None:
        return requested
    return {mid: min(amount, reported.mid.get(mid, 0)) for mid, amount in requested.items()}


def last_floor(case: Case) -> dict[str, int]:
    """Return the requests that the floor counts where the pods cannot be listed.

    Of the newest snapshot of the agent, unless Mid shrinks; otherwise of the annotation, which counts before
    what another client may have published; without one what is published.
    """
    reported = case.inputs.usable.requests if case.inputs.usable else None
    if reported is not None and not (case.written and case.written.floor_before):
        return {mid: reported.mid.get(mid, 0) for mid in names.MID_RESOURCES}
    if case.written is None:
        return {mid: case.published.allocatable.get(mid, 0) for mid in names.MID_RESOURCES}
    lines = {mid: case.written.resources.get(mid, Terms()) for mid in names.MID_RESOURCES}
    return {mid: (line.published or 0) if line.floor is None else line.floor for mid, line in lines.items()}

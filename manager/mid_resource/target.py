"""Make the target of a node as decided: calculated, kept or withdrawn, with the pod lists that this takes."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_report import Requests, UsableReport
from apiserver_client import errors, session
from manager.cache import store
from manager.mid_resource import formula
from manager.mid_resource import pods as pods_on_node
from manager.mid_resource.decision import Action, Case
from manager.mid_resource.formula import FROM_PODS, FROM_REPORT, UNKNOWN, Floor, Period, Target
from manager.mid_resource.node_state import MidNodeState
from manager.mid_resource.pods import ListedPods, NodePods

log = logging.getLogger(__name__)

_NATIVE_OF_MID: Final = {mid: native for native, mid in mid_resource.MID_OF_NATIVE.items()}


class Targets:
    """Makes targets. `newly_evicted` returns the UIDs of pods that leave although a list may not show it yet."""

    def __init__(
        self, api: session.Session, list_period: dt.timedelta, newly_evicted: Callable[[], Collection[str]] = frozenset
    ) -> None:
        self._api = api
        self._list_period = list_period
        self._newly_evicted = newly_evicted

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
        if last is not None and last.counts(sample, case.now, since, self._list_period):
            return last.pods
        listed = last.pods._replace(is_old=True) if last and last.pods else None
        try:
            listed = await pods_on_node.list_node(self._api, case.name, self._newly_evicted)
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
                requests, source = (
                    Requests(node_reservation.allocatable(case.node).resources, last_floor(case)),
                    UNKNOWN,
                )  # no unallocated
        target = _evaluated(case, report, requests)
        shrinks = _is_short(target) or (case.closed and any(requests.mid.values()))
        if not shrinks or not (case.policy.floor or case.is_evicted_from):
            state.period, state.has_ended_period = None, True
            return target, source
        period = state.continue_or_begin_period(case.written, case.now, case.inputs.sample_time)
        if case.is_evicted_from or period.sample is None or period.sample != case.inputs.sample_time:
            target = _evaluated(case, report, requests, await self._bound_before(case, state, period, requests))
        return formula.with_floor_before(target, period.since), source

    async def _without_room(self, case: Case, state: MidNodeState, target: Target) -> Target:
        """Return a target of kept values for a closed node. No report shows yet which pods were evicted."""
        if not case.is_evicted_from:
            return formula.kept_closed(target, last_floor(case), case.closed)
        since = state.continue_or_begin_period(case.written, case.now, None).since
        listed = await self._list(case, state, None, since)
        requested = _no_more_than_reported(case, listed, listed.mid_bound_until(since)) if listed else last_floor(case)
        return formula.with_floor_before(formula.kept_closed(target, requested, case.closed), since)

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
        capacity = _mid_capacity(case.node)
        requested: Mapping[str, int] = last_floor(case)
        if listed:
            requested = _no_more_than_reported(case, listed, listed.mid_bound_until(since))
        bound = Floor(
            values={mid: mid_resource.bounded_floor(amount, capacity[mid]) for mid, amount in requested.items()},
            capacity=capacity,
            allocated=listed.requests().mid if listed else {},
            bound_before=requested if listed else {},
        )
        return formula.withdrawn(bound, reason, since), FROM_PODS if listed else UNKNOWN


def _no_more_than_reported(case: Case, listed: NodePods, requested: Mapping[str, int]) -> Mapping[str, int]:
    """Limit the requests of a list that could not be renewed to those of the newest report: pods end meanwhile."""
    reported = case.inputs.usable.requests if case.inputs.usable else None
    if not listed.is_old or reported is None:
        return requested
    return {mid: min(amount, reported.mid.get(mid, 0)) for mid, amount in requested.items()}


def last_floor(case: Case) -> dict[str, int]:
    """Return the requests that the floor counts where the pods cannot be listed.

    Of the newest snapshot of the agent, unless Mid shrinks; otherwise of the annotation, otherwise what is published.
    """
    reported = case.inputs.usable.requests if case.inputs.usable else None
    if reported is not None and not (case.written and case.written.floor_before):
        return {mid: reported.mid.get(mid, 0) for mid in names.MID_RESOURCES}
    lines = case.written.resources if case.written else {}
    written = {mid: lines[mid].floor if mid in lines else None for mid in names.MID_RESOURCES}
    return {mid: case.published.allocatable.get(mid, 0) if floor is None else floor for mid, floor in written.items()}


def _evaluated(
    case: Case, report: UsableReport, requests: Requests, bound_before: Mapping[str, int] | None = None
) -> Target:
    return formula.evaluated(
        case.node,
        report,
        case.policy,
        requests,
        sample=case.inputs.sample_time,
        max_increase_percent=case.strategy.strategy.mid_max_increase_percent,
        bound_before=bound_before,
        closed=case.closed,
    )


def _is_short(target: Target) -> bool:
    """Check whether less is calculated than Mid pods request."""
    return any((line.calculated or 0) < (line.allocated_mid or 0) for line in target.lines.values())


def _mid_capacity(node: store.StoredNode) -> dict[str, int]:
    capacity = pods.units(node.status.capacity)
    return {mid: capacity.get(native, 0) for mid, native in _NATIVE_OF_MID.items()}

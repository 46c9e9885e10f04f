"""Explain which Mid pod a node would give up next, and why. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

from api_types.node_metric import mid_eviction
from manager.cache import store
from manager.mid_resource.eviction import messages, planning, pod_view, report
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.report import FullReport
from manager.mid_resource.eviction.shortage import Observation


def last_eviction(node: store.Node, policy: EvictionPolicy) -> Iterator[str]:
    """Yield the last eviction on a node that is closed since."""
    record = mid_eviction.of(node)
    if record is not None:
        evicted = f"evicted {record.pod} at {record.time}" if record.pod else "nothing was evicted yet"
        yield f"closed since {record.since}: {evicted} ({record.trigger})"
        yield messages.reopens(policy, record.trigger)


def next_eviction(
    node: store.Node,
    seen: Observation,
    full: FullReport,
    listed: Iterable[pod_view.Pod],
    policy: EvictionPolicy,
    *,
    now: dt.datetime,
) -> Iterator[str]:
    """Yield what the newest report leads to, if the following ones show the same."""
    shortages = seen.shortages(policy)
    if policy.mode == "off" or not shortages:
        return
    if fault := report.fault(full, seen, policy.cold_start, now):
        yield f"no Mid pod is evicted: {fault}"
        return
    found = pod_view.node_pods(listed, node.metadata.uid, report.memory_of_pods(full), shortages)
    plan = planning.plan(found, seen, shortages, policy, lambda _: True)
    if not plan.triggers:
        yield f"no Mid pod is evicted: {plan.nothing}"
        return
    cause = messages.why(plan, seen, {})
    when = f"once {policy.reports} consecutive reports show it"
    if plan.victim is None:
        yield f"Mid pods are to be evicted {when}, and none can be: {plan.nothing}: {cause}"
    else:
        does = "evicted" if policy.evicts else f"named, but not evicted (midEviction.mode {policy.mode})"
        yield f"next, {plan.victim.key} is {does}, {when}: {cause}"
    for pod in plan.protected:
        yield f"protected: {pod.key}: {pod.protected}"

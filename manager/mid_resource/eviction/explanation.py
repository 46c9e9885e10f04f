"""Explain which Mid pod a node would give up next, and why. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

from api_types.node_metric import mid_eviction
from manager.cache import store
from manager.mid_resource import departure
from manager.mid_resource.eviction import messages, planning, pod_view, report, turns
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.report import FullReport
from manager.mid_resource.eviction.shortage import EMPTIED, WHOLE_NODE, Observation, Trigger
from manager.mid_resource.reasons import Closed


def last_eviction(node: store.Node, policy: EvictionPolicy) -> Iterator[str]:
    """Yield the last eviction on a node that is closed since."""
    record = mid_eviction.of(node)
    if record is not None:
        evicted = f"evicted {record.pod} at {record.time}" if record.pod else "nothing was evicted yet"
        yield f"closed since {record.since}: {evicted} ({record.trigger})"
        yield messages.reopens(policy, record.trigger)


def causes(node: store.Node, seen: Observation | None, policy: EvictionPolicy) -> frozenset[Trigger]:
    """Return what evicts from a node now, or would if the following reports showed the same."""
    shortages = seen.shortages(policy) if seen else frozenset()
    return turns.causes(shortages, policy, mid_eviction.of(node), departure.of(node))


def interruption(node: store.Node, seen: Observation | None, policy: EvictionPolicy) -> Iterator[str]:
    """Yield why a shortage evicts none, or why a node that was closed to be emptied is not."""
    leaves, record = departure.of(node), mid_eviction.of(node)
    if policy.mode == "off" or leaves.is_leaving:
        return
    is_emptied = record is not None and record.trigger in EMPTIED
    is_cordoned = leaves.closed is Closed.CORDONED
    if (is_emptied and policy.is_frozen) or (is_cordoned and (is_emptied or (seen and seen.shortages(policy)))):
        why = f"the node is cordoned ({leaves.cause})" if is_cordoned else "midEmergency is freeze"
        yield f"only high memory of the node evicts Mid pods: {why}"
    if policy.is_frozen:
        yield "where midEmergency is drain and not freeze, every Mid pod is evicted"


def next_eviction(
    node: store.Node,
    seen: Observation | None,
    full: FullReport | None,
    listed: Iterable[pod_view.Pod],
    policy: EvictionPolicy,
    *,
    now: dt.datetime,
) -> Iterator[str]:
    """Yield what the causes lead to. Neither report is read where every Mid pod of the node has to go."""
    bound, triggers = list(listed), causes(node, seen, policy)
    is_whole = bool(triggers & set(WHOLE_NODE))
    if not is_whole and seen and full and (fault := report.fault(full, seen, policy.cold_start, now)):
        yield f"no Mid pod is evicted: {fault}"
        return
    uid = node.metadata.uid
    for trigger in triggers & EMPTIED:
        if kept := pod_view.kept_by(pod_view.keepers(bound, uid), trigger):
            yield f"no Mid pod is evicted, and the node opens again: {kept}"
            return
    usage = report.memory_of_pods(full) if full and not is_whole else {}
    found = pod_view.node_pods(bound, uid, usage, triggers)
    if is_whole and not found.staying:
        return
    plan = planning.plan(found, seen, triggers, policy, lambda _: True)
    if not plan.triggers:
        yield f"no Mid pod is evicted: {plan.nothing}"
        return
    cause = messages.why(plan, seen, {}, departure.of(node))
    when = "" if is_whole else f", once {policy.reports} consecutive reports show it"
    if plan.victim is None:
        yield f"Mid pods are to be evicted{when}, and none can be: {plan.nothing}: {cause}"
    else:
        does = "evicted" if policy.evicts else f"named, but not evicted (midEviction.mode {policy.mode})"
        yield f"next, {plan.victim.key} is {does}{when}: {cause}"
    for pod in plan.protected:
        yield f"protected: {pod.key}: {pod.protected}"

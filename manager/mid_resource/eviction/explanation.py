"""Explain which Mid pod a node would give up next, and why. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

from api_types.node_metric import mid_eviction
from manager.cache import store
from manager.mid_resource import decision
from manager.mid_resource.eviction import messages, nodes, planning, shortage
from manager.mid_resource.eviction import pods as pods_on_node
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.shortage import WHOLE_NODE, FullReport, Observation, Trigger
from manager.mid_resource.reasons import Closed


def last_eviction(node: store.StoredNode, policy: EvictionPolicy) -> Iterator[str]:
    """Yield the last eviction on a node that is closed since."""
    record = mid_eviction.eviction_record(node)
    if record is not None:
        evicted = f"evicted {record.pod} at {record.time}" if record.pod else "nothing was evicted yet"
        yield f"closed since {record.since}: {evicted} ({record.trigger})"
        yield messages.reopens(policy, record.trigger)


def causes(node: store.StoredNode, observation: Observation | None, policy: EvictionPolicy) -> frozenset[Trigger]:
    """Return what evicts from a node now, or would if the following reports showed the same."""
    shortages = observation.shortages(policy) if observation else frozenset()
    return nodes.causes(shortages, policy, mid_eviction.eviction_record(node), decision.classify(node))


def interruption(node: store.StoredNode, observation: Observation | None, policy: EvictionPolicy) -> Iterator[str]:
    """Yield why a shortage evicts none, or why a node that was closed to be emptied is not."""
    departure, record = decision.classify(node), mid_eviction.eviction_record(node)
    if policy.mode == "off" or departure.is_leaving:
        return
    is_emptied = record is not None and record.trigger == Trigger.MID_ONLY
    is_cordoned = departure.closed is Closed.CORDONED
    if (is_emptied and policy.is_frozen) or (
        is_cordoned and (is_emptied or (observation and observation.shortages(policy)))
    ):
        why = f"the node is cordoned ({departure.cause})" if is_cordoned else "midEmergency is freeze"
        yield f"only high memory of the node evicts Mid pods: {why}"
    if policy.is_frozen:
        yield "where midEmergency is drain and not freeze, every Mid pod is evicted"


def next_eviction(
    node: store.StoredNode,
    observation: Observation | None,
    full: FullReport | None,
    listed: Iterable[pods_on_node.EvictablePod],
    policy: EvictionPolicy,
    *,
    now: dt.datetime,
) -> Iterator[str]:
    """Yield what the causes lead to. Neither report is read where every Mid pod of the node has to go."""
    bound, triggers = list(listed), causes(node, observation, policy)
    is_whole = bool(triggers & set(WHOLE_NODE))
    if not is_whole and observation and full and (fault := shortage.fault(full, observation, policy.cold_start, now)):
        yield f"no Mid pod is evicted: {fault}"
        return
    uid = node.metadata.uid
    if Trigger.MID_ONLY in triggers and (keeper := pods_on_node.keeper(bound, uid)):
        yield f"no Mid pod is evicted, and the node opens again: the pod {keeper} runs there"
        return
    usage = shortage.memory_of_pods(full) if full and not is_whole else {}
    pods = pods_on_node.node_pods(bound, uid, usage, triggers)
    if is_whole and not pods.staying:
        return
    plan = planning.plan(pods, observation, triggers, policy, lambda _: True)
    if not plan.triggers:
        yield f"no Mid pod is evicted: {plan.nothing}"
        return
    cause = messages.why(plan, observation, {}, decision.classify(node))
    when = "" if is_whole else f", once {policy.reports} consecutive reports show it"
    if plan.victim is None:
        yield f"Mid pods are to be evicted{when}, and none can be: {plan.nothing}: {cause}"
    else:
        does = "evicted" if policy.evicts else f"named, but not evicted (midEviction.mode {policy.mode})"
        yield f"next, {plan.victim.key} is {does}{when}: {cause}"
    for pod in plan.protected:
        yield f"protected: {pod.key}: {pod.protected}"

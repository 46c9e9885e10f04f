"""Explain the Mid resources of a node, or why it has none, by its objects; works beside a manager and without one.

Nothing is written. Pods are read only where the explanation needs them.
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from api_types.colocation import controller_config as slo
from api_types.kubernetes import times
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import MidReport
from api_types.node_metric.mid_status import MidStatus
from apiserver_client import errors, objects, resources, session
from manager.cache import store
from manager.mid_resource import decision, explanation, formula, patch
from manager.mid_resource.decision import Action, Case
from manager.mid_resource.eviction import planning, shortage
from manager.mid_resource.eviction import pods as evictable_pods
from manager.mid_resource.eviction import policy as eviction_policy
from manager.mid_resource.eviction.shortage import Observation
from manager.mid_resource.formula import FROM_PODS, FROM_REPORT
from manager.mid_resource.reasons import Closed
from manager.mid_resource.target import bound_pods, list_node
from manager.slo_config.strategy import unconfigured


async def explain(
    api: session.Session, node: store.StoredNode, metric: store.StoredNodeMetric | None, now: dt.datetime
) -> explanation.Explanation:
    """Explain a Node and its NodeMetric. Raises errors.ApiServerError."""
    decided, shadow = decision.decide_by_spec(node, metric, now), None
    policy = decision.spec_policy(metric) if metric else None
    if metric and policy and decided and decided.action is Action.CALCULATE and node.mid_status is None:
        shadow = await _shadow(api, node, metric, mid_report.mid_policy(policy), now)
    eviction = await explain_eviction(api, node, metric, now)
    return dataclasses.replace(explanation.explain(node, decided, shadow), eviction=eviction)


async def _shadow(
    api: session.Session,
    node: store.StoredNode,
    metric: store.StoredNodeMetric,
    policy: mid_report.MidPolicy,
    now: dt.datetime,
) -> MidStatus | None:
    """Return the annotation that a node in shadow would have; None for a node that is not. Raises ApiServerError."""
    if policy.publishes or metric.status is None:
        return None
    usable, published = mid_report.usable_report(metric.status, policy), formula.published_on(node).allocatable
    source, requests = FROM_REPORT, usable.requests
    if requests is None:
        source, requests = FROM_PODS, (await list_node(api, node.metadata.name, last_floor=published)).requests()
    sample = times.parse_rfc3339_or_none(metric.status.update_time)
    target = formula.evaluated(node, usable, policy, requests, sample=sample, max_increase_percent=None)
    return patch.make_status(target.reason, now, sample=sample, requests_from=source, lines=target.lines)


async def explain_eviction(
    api: session.Session, node: store.StoredNode, metric: store.StoredNodeMetric | None, now: dt.datetime
) -> tuple[str, ...]:
    """Return sentences about evictions from a node: what was evicted, and what would be next.

    There are none for a node without a NodeMetric or a policy. Raises errors.ApiServerError.
    """
    keys = decision.spec_policy(metric) if metric else None
    if metric is None or keys is None:
        return ()
    # The NodeMetric lacks `midEmergency`, so the status annotation shows a freeze.
    is_frozen = node.mid_status is not None and node.mid_status.closed == Closed.FROZEN
    policy = eviction_policy.from_keys(slo.ColocationStrategy.model_validate(keys.to_wire()))
    policy = dataclasses.replace(policy, mode=policy.mode if keys.enable else "off", is_frozen=is_frozen)
    observation = _observation(node, metric, keys, now)
    sentences = [*planning.last_eviction(node, policy), *planning.interruption(node, observation, policy)]
    if planning.causes(node, observation, policy):
        name = node.metadata.name
        full = await objects.get(api, resources.NODE_METRICS, name, decode=shortage.FullReport) if observation else None
        try:
            listed = await bound_pods(api, name, evictable_pods.EvictablePod)
        except errors.Forbidden as error:
            return (*sentences, f"cannot name the pod that would be evicted: {error}")
        sentences += planning.next_eviction(node, observation, full, listed, policy, now=now)
    return tuple(sentences)


def _observation(
    node: store.StoredNode, metric: store.StoredNodeMetric, keys: slo.MidColocationPolicy, now: dt.datetime
) -> Observation | None:
    policy = mid_report.mid_policy(keys)
    gathered = decision.gather(node, metric, policy, enabled=bool(keys.enable))
    decided = decision.decide(gathered, now)
    usable = gathered.usable
    if decided.action is not Action.CALCULATE or usable is None or usable.requests is None:
        return None
    calculation = Case(
        name=node.metadata.name,
        node=node,
        report=metric.status or MidReport(),
        strategy=unconfigured(),
        policy=policy,
        published=formula.published_on(node),
        inputs=gathered,
        decision=decided,
        now=now,
    )
    target = formula.evaluated(
        node, usable, policy, usable.requests, sample=gathered.sample_time, max_increase_percent=None
    )
    return shortage.observe_report(calculation, target, FROM_REPORT)

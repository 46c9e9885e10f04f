"""The part of `explain-mid` about evictions: reads the node's NodeMetric again and its pods, writes nothing."""

from __future__ import annotations

import dataclasses
import datetime as dt

from api_types.colocation import controller_config as slo
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import MidReport
from apiserver_client import errors, objects, resources, session
from manager.cache import store
from manager.mid_resource import calculator, decision, evaluation
from manager.mid_resource.case import FROM_REPORT, Case
from manager.mid_resource.decision import Action
from manager.mid_resource.eviction import explanation, pod_view, report
from manager.mid_resource.eviction import policy as eviction_policy
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.shortage import Observation
from manager.mid_resource.reasons import Closed
from manager.slo_config.strategy import unconfigured


async def of_node(
    api: session.Session,
    node: store.Node,
    metric: store.NodeMetric | None,
    keys: slo.MidColocationPolicy | None,
    now: dt.datetime,
) -> tuple[str, ...]:
    """Return the sentences; none for a node without a NodeMetric or a policy. Raises errors.ApiServerError."""
    if metric is None or keys is None:
        return ()
    chosen = _policy(node, keys)
    seen = _observation(node, metric, keys, now)
    sentences = [*explanation.last_eviction(node, chosen), *explanation.interruption(node, seen, chosen)]
    if explanation.causes(node, seen, chosen):
        name = node.metadata.name
        full = await objects.get(api, resources.NODE_METRICS, name, decode=report.FullReport) if seen else None
        try:
            listed = await objects.list_all(
                api, resources.PODS, field_selector=f"spec.nodeName={name}", decode=pod_view.Pod
            )
        except errors.Forbidden as error:
            return (*sentences, f"cannot name the pod that would be evicted: {error}")
        sentences += explanation.next_eviction(node, seen, full, listed.items, chosen, now=now)
    return tuple(sentences)


def _policy(node: store.Node, keys: slo.MidColocationPolicy) -> EvictionPolicy:
    """Return the policy of a node; the NodeMetric lacks `midEmergency`, so the status annotation shows a freeze."""
    found = eviction_policy.of_keys(slo.ColocationStrategy.model_validate(keys.to_wire()))
    is_frozen = node.mid_status is not None and node.mid_status.closed == Closed.FROZEN
    return dataclasses.replace(found, mode=found.mode if keys.enable else "off", is_frozen=is_frozen)


def _observation(
    node: store.Node, metric: store.NodeMetric, keys: slo.MidColocationPolicy, now: dt.datetime
) -> Observation | None:
    policy = mid_report.mid_policy(keys)
    inputs = decision.gather(node, metric, policy, enabled=bool(keys.enable), degrade_after=decision.degrade_time(keys))
    decided = decision.decide(inputs, now)
    usable = inputs.usable
    if decided.action is not Action.CALCULATE or usable is None or usable.requests is None:
        return None
    case = Case(
        name=node.metadata.name,
        node=node,
        report=metric.status or MidReport(),
        strategy=unconfigured(),
        policy=policy,
        published=calculator.published_on(node),
        inputs=inputs,
        decision=decided,
        now=now,
    )
    target = evaluation.calculated(
        node, usable, policy, usable.requests, sample=inputs.sample_time, max_increase_percent=None
    )
    return report.observation(case, target, FROM_REPORT)

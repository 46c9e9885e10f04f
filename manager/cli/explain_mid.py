"""`python -m manager explain-mid --node N`: explain the Mid resources of a node, or why it has none.

The command reads the Node and its NodeMetric and writes nothing, so it works beside a running manager and without one.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from typing import Final, Literal

import msgspec

from api_types.kubernetes import pods, times
from api_types.node_metric import mid_report
from api_types.node_metric.mid_status import MidStatus
from apiserver_client import connection, errors, objects, resources, session
from manager.cache import store
from manager.cli import explain_eviction
from manager.mid_resource import case, evaluation, explanation, pod_requests, spec_policy, status_annotation
from manager.mid_resource.decision import Action

Output = Literal["text", "json"]

EXPLAINED: Final = 0
NOT_READ: Final = 1


async def explain(to: connection.Connection, node: str, output: Output, now: dt.datetime) -> int:
    """Print the explanation; return the exit code."""
    try:
        async with session.connect(to, user_agent="koord-manager/explain") as api:
            found = await of_node(api, node, now)
    except errors.ApiServerError as error:
        sys.stderr.write(f"{error}\n")
        return NOT_READ
    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in explanation.lines(found))
    return EXPLAINED


async def of_node(api: session.Session, name: str, now: dt.datetime) -> explanation.Explanation:
    """Read the Node and its NodeMetric and explain them. Raises errors.ApiServerError."""
    node = store.with_mid_status(await objects.get(api, resources.NODES, name, decode=pods.Node))
    try:
        metric = await objects.get(api, resources.NODE_METRICS, name, decode=store.NodeMetric)
    except errors.NotFound:
        metric = None
    return await of_objects(api, node, metric, now)


async def of_objects(
    api: session.Session, node: store.Node, metric: store.NodeMetric | None, now: dt.datetime
) -> explanation.Explanation:
    """Explain a Node and its NodeMetric; reads pods where the explanation needs them. Raises errors.ApiServerError."""
    decided, shadow = spec_policy.decide(node, metric, now), None
    policy = spec_policy.policy_of(metric) if metric else None
    if metric and policy and decided and decided.action is Action.CALCULATE and node.mid_status is None:
        shadow = await _shadow(api, node, metric, mid_report.mid_policy(policy), now)
    eviction = await explain_eviction.of_node(api, node, metric, policy, now)
    return dataclasses.replace(explanation.explain(node, decided, shadow), eviction=eviction)


async def _shadow(
    api: session.Session,
    node: store.Node,
    metric: store.NodeMetric,
    policy: mid_report.MidPolicy,
    now: dt.datetime,
) -> MidStatus | None:
    """Return the annotation that a node in shadow would have; None for a node that is not. Raises ApiServerError."""
    if policy.publishes or metric.status is None:
        return None
    report = mid_report.usable_report(metric.status, policy)
    source, requests = case.FROM_REPORT, report.requests
    if requests is None:
        source, requests = case.FROM_PODS, (await pod_requests.of_node(api, node.metadata.name)).requests()
    sample = times.parse_rfc3339_or_none(metric.status.update_time)
    found = evaluation.calculated(node, report, policy, requests, sample=sample, max_increase_percent=None)
    return status_annotation.make(found.reason, now, sample=sample, requests_from=source, lines=found.lines)

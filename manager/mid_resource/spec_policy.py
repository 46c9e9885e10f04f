"""Decide by the policy in a NodeMetric's spec, as koordctl does beside a running manager. Pure."""

from __future__ import annotations

import datetime as dt

from api_types.colocation import controller_config as slo
from api_types.node_metric import mid_report
from manager.cache import store
from manager.mid_resource import decision


def decide(node: store.Node, metric: store.NodeMetric | None, now: dt.datetime) -> decision.Decision | None:
    """Decide on the newest report, by the policy in the NodeMetric's spec; None where the spec has none."""
    policy = policy_of(metric) if metric else slo.MidColocationPolicy(enable=True)
    if policy is None:
        return None
    inputs = decision.gather(
        node,
        metric,
        mid_report.mid_policy(policy),
        enabled=bool(policy.enable),
        degrade_after=decision.degrade_time(policy),
    )
    return decision.decide(inputs, now)


def policy_of(metric: store.NodeMetric) -> slo.MidColocationPolicy | None:
    """Return the policy that the manager wrote for this node; None where it is absent or invalid."""
    wire = (metric.spec or {}).get("midColocationPolicy")
    try:
        return slo.MidColocationPolicy.model_validate(wire) if wire is not None else None
    except ValueError:
        return None

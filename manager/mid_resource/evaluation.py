"""Evaluate the formula on the objects of one node, for the controller and for `koordctl explain node`. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final

from api_types.colocation import node_reservation
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import MidPolicy, Requests, UsableReport
from manager.cache import store
from manager.mid_resource import calculator
from manager.mid_resource.reasons import STATUS, Closed, Reason, Status

PUBLISHING: Final = tuple(reason for reason in Reason if STATUS[reason] is Status.CALCULATED)


def calculated(
    node: store.Node,
    report: UsableReport,
    policy: MidPolicy,
    requests: Requests,
    *,
    sample: dt.datetime | None,
    max_increase_percent: int | None,
    bound_before: Mapping[str, int] | None = None,
    closed: Closed = Closed.NO,
) -> calculator.Target:
    """Return the target of a node by a report. `sample` is its time; `requests` as in `mid_report.formula_inputs`."""
    written = node.mid_status
    inputs = mid_report.formula_inputs(
        report,
        policy,
        node_reservation.allocatable(node).resources,
        pods.units(node.status.capacity),
        requests,
        bound_before=bound_before,
    )
    published_sample = written.sample if written and written.reason in PUBLISHING else ""
    if not policy.publishes or max_increase_percent is None:  # nothing is published that it could rise from
        max_increase_percent = calculator.UNLIMITED_INCREASE_PERCENT
    return calculator.calculated(
        inputs,
        calculator.published_on(node),
        max_increase_percent,
        same_sample=sample is not None and times.format_rfc3339(sample) == published_sample,
        written=written,
        reserved=node_reservation.annotated(pods.annotations_of(node.metadata)).resources,
        closed=closed,
    )


def requests_unknown(node: store.Node, mid: Mapping[str, int]) -> Requests:
    """Return requests where they could not be counted: nothing is unallocated, and `mid` is the last known floor."""
    return Requests(node_reservation.allocatable(node).resources, mid)

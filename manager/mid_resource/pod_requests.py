"""Requests bound on a node, summed over its pods: only where the agent does not report them or may be out of date."""

from __future__ import annotations

from collections.abc import Iterable

from api_types import names
from api_types.kubernetes import pods, priority_and_qos
from api_types.node_metric.mid_report import Requests
from apiserver_client import objects, resources, session


async def of_node(api: session.Session, node: str) -> Requests:
    """List a node's pods once and sum their requests. Raises errors.ApiServerError."""
    listing = await objects.list_all(api, resources.PODS, field_selector=f"spec.nodeName={node}", decode=pods.Pod)
    return summed(listing.items)


def summed(bound: Iterable[pods.Pod]) -> Requests:
    """Sum native requests of Prod pods and Mid requests of all pods; ended pods request nothing.

    A pod of unknown priority class counts as Prod: its requests are never given to Mid.
    """
    prod: pods.Resources = {}
    mid: pods.Resources = {}
    for pod in bound:
        if pods.is_terminal(pod):
            continue
        requests = pods.requests(pod.spec)
        for name in names.MID_RESOURCES:
            mid[name] = mid.get(name, 0) + requests.get(name, 0)
        if priority_and_qos.priority_class(pod) is priority_and_qos.PriorityClass.PROD:
            for name in (names.CPU, names.MEMORY):
                prod[name] = prod.get(name, 0) + requests.get(name, 0)
    return Requests(prod, mid)

"""Reads of the console: the snapshot behind every page, and what only one page shows. Nothing is written.

Every function raises errors.ApiServerError where the apiserver does not answer.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Sequence
from typing import Final, TypeVar

from api_types.kubernetes import pods
from apiserver_client import errors, objects, resources, session
from console.cluster.details import Listed, NodeDetail
from console.cluster.wire import DetailedNodeMetric, PendingPod
from fleet import mid_terms, wire
from fleet.pod_state import NamespaceState
from fleet.reading import Reader
from fleet.snapshot import Snapshot, Unread
from manager.cache import store
from manager.cli import explain_mid
from manager.events.recorder import REPORTER
from manager.slo_config.evaluation import Outcome

T = TypeVar("T")
_MOST_LISTED: Final = 500


async def snapshot(api: session.Session, namespace: str, now: dt.datetime) -> tuple[Snapshot, float | None]:
    """Read nodes, reports and installation, and the usage threshold of the scheduler, None where it is not known."""
    reader = Reader(api, now)
    nodes = await reader.nodes()
    installation = await reader.installation(namespace)
    found = Snapshot(now, api.server, nodes, None, installation, tuple(reader.unread))
    return found, await reader.usage_limit(namespace)


async def node(api: session.Session, name: str, now: dt.datetime, outcome: Outcome | None = None) -> NodeDetail:
    """Read one node: the terms of its Mid, its pods, the windows and terms of its report.

    `outcome` is the configuration of the snapshot.
    """
    reader = Reader(api, now)
    report, explanation, found, metric, layers = None, None, None, None, mid_terms.NO_LAYERS
    with reader.attempt("nodemetrics"):
        read = await objects.get(api, resources.NODE_METRICS, name, decode=DetailedNodeMetric)
        report = read.status
    with reader.attempt(f"nodes/{name}"):
        seen = store.with_mid_status(await objects.get(api, resources.NODES, name, decode=pods.Node))
        with contextlib.suppress(errors.Forbidden, errors.NotFound):  # noted above
            metric = await objects.get(api, resources.NODE_METRICS, name, decode=store.NodeMetric)
        explanation = await explain_mid.of_objects(api, seen, metric, now)
        layers = mid_terms.layers(outcome, seen)
    with reader.attempt("pods"):
        found = await reader.pods(None, name)
    return NodeDetail(explanation, found, report, layers, tuple(reader.unread))


async def by_namespace(api: session.Session, namespace: str, now: dt.datetime) -> Listed[NamespaceState]:
    """Read all pods and sum them by namespace; `namespace` is that of the suite."""
    reader = Reader(api, now)
    config = await reader.scheduler_config(namespace)
    return Listed(await reader.namespaces(default=config.default_quota), tuple(reader.unread))


async def pending(api: session.Session, now: dt.datetime) -> Listed[PendingPod]:
    """Read the pods that have no node yet."""
    listed = await _listed(api, now, resources.PODS, "status.phase=Pending", PendingPod)
    if listed.items is None:
        return listed
    return Listed(tuple(pod for pod in listed.items if not pod.spec.node_name), listed.unread)


async def manager_events(api: session.Session, now: dt.datetime) -> Listed[wire.Event]:
    """Read the Events of the manager, the newest first."""
    return await _events(api, now, f"reportingComponent={REPORTER}")


async def scheduling_events(api: session.Session, now: dt.datetime) -> Listed[wire.Event]:
    """Read the Events about pods that found no node, the newest first."""
    return await _events(api, now, "reason=FailedScheduling")


async def _events(api: session.Session, now: dt.datetime, selector: str) -> Listed[wire.Event]:
    listed = await _listed(api, now, resources.EVENTS, selector, wire.Event)
    if listed.items is None:
        return listed
    newest = sorted(listed.items, key=lambda each: each.last_timestamp or each.event_time or "", reverse=True)
    return Listed(tuple(newest[:_MOST_LISTED]), listed.unread)


async def _listed(
    api: session.Session, now: dt.datetime, resource: resources.Resource, selector: str, decode: type[T]
) -> Listed[T]:
    """Read a list from the watch cache of the apiserver; an object that cannot be decoded is counted in `unread`."""
    reader = Reader(api, now)
    bad: list[errors.DecodeError] = []
    items: Sequence[T] | None = None
    with reader.attempt(resource.plural):
        listed = await objects.list_all(
            api, resource, field_selector=selector, decode=decode, from_cache=True, on_unreadable=bad.append
        )
        items = listed.items
    unread = [*reader.unread, *(Unread(f"{len(bad)} {resource.plural}", str(bad[0])) for _ in bad[:1])]
    return Listed(None if items is None else tuple(items), tuple(unread))

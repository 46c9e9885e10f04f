"""Reads of the console: the snapshot behind every page, and what only one page shows. Nothing is written.

Every function raises errors.ApiServerError where the apiserver does not answer.
"""

from __future__ import annotations

import datetime as dt
import json
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeVar

from api_types.kubernetes import pods
from apiserver_client import errors, objects, resources, session
from component_base import clock
from console.cluster.details import DetailedNodeMetric, Listed, NodeDetail, PendingPod, Records
from fleet import mid_explanation, node_state, port_forward, wire
from fleet.findings import SCHEDULER, Unread, label
from fleet.pod_state import NamespaceState
from fleet.port_forward import Caller, CannotForward, PodPort
from fleet.reading import OF_NODES, Reader
from manager.cache import store
from manager.events import REPORTER
from manager.slo_config.evaluation import ConfigOutcome
from scheduler_plugin.settings import SchedulerPluginSettings

T = TypeVar("T")
_MOST_LISTED: Final = 500
_BY_MANAGER: Final = f"reportingComponent={REPORTER}"


async def node(api: session.Session, name: str, now: dt.datetime, outcome: ConfigOutcome | None = None) -> NodeDetail:
    """Read one node: the terms of its Mid, its pods, the windows and terms of its report.

    `outcome` is the configuration of the snapshot.
    """
    reader = Reader(api, now)
    explanation, node_pods, metric = None, None, None
    layers: Mapping[str, str] = {}
    with reader.attempt("nodemetrics"):
        metric = await objects.get(api, resources.NODE_METRICS, name, decode=DetailedNodeMetric)
    with reader.attempt(f"nodes/{name}"):
        with_status = store.with_mid_status(await objects.get(api, resources.NODES, name, decode=pods.Node))
        explanation = await mid_explanation.explain(api, with_status, metric, now)
        layers = node_state.mid_layers(outcome, with_status)
    with reader.attempt("pods"):
        node_pods = await reader.pods(None, name)
    return NodeDetail(explanation, node_pods, metric.status if metric else None, layers, tuple(reader.unread))


async def by_namespace(api: session.Session, namespace: str, now: dt.datetime) -> Listed[NamespaceState]:
    """Read all pods and sum them by namespace; `namespace` is that of the suite."""
    reader = Reader(api, now)
    config = await reader.scheduler_config(namespace)
    return Listed(await reader.namespaces(config=config), tuple(reader.unread))


async def pending(api: session.Session, now: dt.datetime) -> Listed[PendingPod]:
    """Read the pods that have no node yet."""
    listed = await _listed(api, now, resources.PODS, "status.phase=Pending", PendingPod)
    if listed.items is None:
        return listed
    return Listed(tuple(pod for pod in listed.items if not pod.spec.node_name), listed.unread)


async def manager_events(api: session.Session, namespace: str, now: dt.datetime) -> Listed[wire.WireEvent]:
    """Read the Events of the manager about nodes and about the suite, the newest first; `namespace` is the suite's.

    Tenants may write Events in their namespaces, also under the name of the manager. None of these is read: a pod that
    was evicted there is named by an Event on its node as well.
    """
    places = sorted({OF_NODES, namespace})
    read = [await _listed(api, now, resources.EVENTS, _BY_MANAGER, wire.WireEvent, namespace=place) for place in places]
    events = [event for answer in read for event in answer.items or ()]
    unread = tuple(dict.fromkeys(problem for answer in read for problem in answer.unread))
    is_read = any(answer.items is not None for answer in read)
    return Listed(tuple(_newest(events, now)[:_MOST_LISTED]) if is_read else None, unread)


async def scheduling_events(api: session.Session, now: dt.datetime) -> Listed[wire.WireEvent]:
    """Read the Events about pods that found no node: the newest of each namespace first, then the second ones.

    So the Events of one namespace never hide those of the others.
    """
    selector = "involvedObject.kind=Pod,reason=FailedScheduling"
    listed = await _listed(api, now, resources.EVENTS, selector, wire.WireEvent)
    if listed.items is None:
        return listed
    ranks: dict[str, int] = Counter()
    ranked = []
    for event in _newest(listed.items, now):
        ranks[event.metadata.namespace] += 1
        ranked.append((ranks[event.metadata.namespace], event))
    ranked.sort(key=lambda pair: pair[0])
    return Listed(tuple(event for _, event in ranked[:_MOST_LISTED]), listed.unread)


def _newest(events: Sequence[wire.WireEvent], now: dt.datetime) -> list[wire.WireEvent]:
    """Sort Events, the newest first. A time in the future counts as now."""

    def seconds(event: wire.WireEvent) -> float:
        time = event.time
        return min(time, now).timestamp() if time else 0.0

    return sorted(events, key=seconds, reverse=True)


async def _listed(
    api: session.Session,
    now: dt.datetime,
    resource: resources.Resource,
    selector: str,
    decode: type[T],
    *,
    namespace: str | None = None,
) -> Listed[T]:
    """Read a list from the watch cache of the apiserver; an object that cannot be decoded is counted in `unread`."""
    reader = Reader(api, now)
    bad: list[errors.DecodeError] = []
    items: Sequence[T] | None = None
    with reader.attempt(resource.plural):
        listed = await objects.list_all(
            api,
            resource,
            namespace=namespace,
            field_selector=selector,
            decode=decode,
            from_cache=True,
            on_unreadable=bad.append,
        )
        items = listed.items
    unread = [*reader.unread, *(Unread(f"{len(bad)} {resource.plural}", str(bad[0])) for _ in bad[:1])]
    return Listed(None if items is None else tuple(items), tuple(unread))


_MOST_NODES: Final = 50
_DEBUG_PORT: Final = int(SchedulerPluginSettings.model_fields["debug_port"].default)


NOT_IN_CLUSTER: Final = Records(
    missing="Each scheduler plugin keeps its decision records on its own loopback address, which this pod does not "
    "reach. For reasons node by node run koordctl console on your machine. The Events below are what the scheduler "
    "wrote to the cluster."
)


async def read_records(api: session.Session, namespace: str, caller: Caller, pod: str) -> Records:
    """Return the recent decisions, and those on `pod` where one is named; why there are none is a sentence.

    Raises errors.ApiServerError where the apiserver does not answer.
    """
    try:
        name = await _leader(api, namespace)
        if not name:
            return Records(missing=f"No pod of {SCHEDULER} runs in the namespace {namespace}.")
        async with port_forward.open_forward(PodPort(namespace, name, _DEBUG_PORT), caller) as forward:
            recent = _decoded(await forward.get("/debug/pods/"))
            records: Any = None
            if pod:
                records = _decoded(await forward.get(f"/debug/pods/{urllib.parse.quote(pod)}?nodes={_MOST_NODES}"))
    except (CannotForward, errors.StatusError) as error:
        return Records(missing=f"The decision records were not read: {error}.")
    decisions = _mappings(records.get("decisions")) if isinstance(records, dict) else []
    return Records(_mappings(recent), pod, decisions)


async def _leader(api: session.Session, namespace: str) -> str:
    """Return the running pod of the scheduler that leads; any other where the Lease names none of them."""
    listed = await objects.list_all(
        api, resources.PODS, namespace=namespace, label_selector=label(SCHEDULER), decode=pods.Pod
    )
    running = sorted(pod.metadata.name for pod in listed.items if pod.status.phase == "Running")
    reader = Reader(api, clock.utc_now())
    leader = await reader.lease(namespace, SCHEDULER, await reader.workload(namespace, SCHEDULER))
    holder = (leader.holder_identity or "").partition("_")[0]
    return holder if holder in running else next(iter(running), "")


def _mappings(items: object) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _decoded(page: port_forward.ForwardedPage) -> Any:
    if page.status != HTTPStatus.OK:
        return None
    try:
        return json.loads(page.body)
    except (ValueError, RecursionError):
        return None

"""Controller of one node's NodeMetric: it exists while its Node does, is owned by it, and has the strategy's spec.

The manager writes only its own fields of the spec, by merge patch; the status belongs to the agent.

An apiserver drops the fields of this project that its NodeMetric CRD lacks, without an error. This happens where
Koordinator's own CRD is kept (`crds.install: false`), or one of an older release. Mid resources stay correct;
docs/contributing/decisions/0014 lists what is lost. Source: Kubernetes' documentation of field pruning.
The schema is read from the OpenAPI document of the group, which every authenticated client may read: no permission for
CRDs is needed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric import crd_manifest
from apiserver_client import decoding, errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache import store
from manager.events import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.node_metric import spec as metric_spec
from manager.node_metric.spec import MetricAction, MetricChange
from manager.node_metric.workload_history.lender import Lender
from manager.slo_config.strategy import NodeStrategy

log = logging.getLogger(__name__)


_MOST_KEYS_LOGGED = 3


@dataclass(eq=False)
class NodeMetricController:
    """Writes the differences from the store and updates the store from the responses.

    `may_evict` returns whether the manager has the right to evict Mid pods.
    """

    api: session.Session
    cache: store.ClusterStore
    telemetry: Telemetry
    may_evict: Callable[[], bool] = lambda: False
    lender: Lender = field(default_factory=Lender)

    def __post_init__(self) -> None:
        self._dropped: dict[str, MetricChange] = {}
        """Changes that changed nothing, by node: the CRD drops their fields."""

    def retry_dropped(self) -> list[str]:
        """Return the nodes whose patches changed nothing, to send them again: the CRD is another one."""
        nodes = list(self._dropped)
        self._dropped.clear()
        return nodes

    def forget(self, name: str) -> None:
        """Drop the state of a node that is gone."""
        self._dropped.pop(name, None)

    def differs(self, name: str, strategy: NodeStrategy | None) -> bool:
        """Check whether a NodeMetric is to be created, updated or deleted."""
        todo = self._plan(name, strategy)
        return todo.action is not MetricAction.NONE and self._dropped.get(name) != todo

    def _plan(self, name: str, strategy: NodeStrategy | None) -> MetricChange:
        spec = metric_spec.wire_for_node(strategy, may_evict=self.may_evict()) if strategy else None
        node, metric = self.cache.nodes.get(name), self.cache.node_metrics.get(name)
        lent = self.lender.lent(node, metric, strategy)
        return metric_spec.plan(node, metric, spec, lent or (metric.lent if metric else None))

    async def reconcile(self, name: str, strategy: NodeStrategy | None) -> None:
        """Create, update or delete. Without a strategy (no configuration yet) an existing spec stays unchanged.

        Raises errors.ApiServerError.
        """
        todo = self._plan(name, strategy)
        if todo.action is MetricAction.CREATE:
            await self._create(name, todo.body)
            todo = self._plan(name, strategy)  # it may have existed already
        metric = self.cache.node_metrics.get(name)
        if todo.action is MetricAction.UPDATE and metric is not None:
            await self._update(name, metric, todo)
        elif todo.action is MetricAction.DELETE and metric is not None:
            await self._delete_orphan(name, metric)

    async def _create(self, name: str, body: Mapping[str, Any]) -> None:
        try:
            with self.telemetry.write("node_metric"):
                metric = await objects.create(self.api, resources.NODE_METRICS, body, decode=store.StoredNodeMetric)
        except errors.AlreadyExists:
            metric = await objects.get(self.api, resources.NODE_METRICS, name, decode=store.StoredNodeMetric)
        else:
            log.info("node %s: created the NodeMetric", name)
        self.cache.node_metrics.update(metric)

    async def _update(self, name: str, metric: store.StoredNodeMetric, todo: MetricChange) -> None:
        if self._dropped.get(name) == todo:
            return
        patch = dict(todo.body)
        node = self.cache.nodes.get(name)
        if todo.lent is not None and node is not None:
            patch["spec"] = {**patch.get("spec", {}), **self.lender.wire(node, metric, todo.lent)}
        log.info("node %s: updating the NodeMetric: %s", name, ", ".join(_changed(patch)))
        try:
            with self.telemetry.write("node_metric"):
                written = await objects.merge_patch(
                    self.api, resources.NODE_METRICS, name, patch, decode=store.StoredNodeMetric
                )
        except errors.NotFound:
            self.cache.node_metrics.remove(name, metric.metadata.uid)
            raise
        stored = self.cache.node_metrics.get(name)  # an answer undoes no deletion that a watch delivered
        if stored is not None and stored.metadata.uid == written.metadata.uid:
            self.cache.node_metrics.update(written)
        if written.metadata.resource_version == metric.metadata.resource_version:
            log.debug("node %s: the CRD drops spec fields, see the Event on it", name)
            self._dropped[name] = todo
        else:
            self._dropped.pop(name, None)

    async def _delete_orphan(self, name: str, metric: store.StoredNodeMetric) -> None:
        """Delete a NodeMetric whose Node is gone. Reads the Node first: the store may not hold all nodes yet."""
        try:
            node = await objects.get(self.api, resources.NODES, name, decode=pods.Node)
        except errors.NotFound:
            pass
        else:
            self.cache.nodes.update(node)
            return
        try:
            with self.telemetry.write("node_metric"):
                await objects.delete(self.api, resources.NODE_METRICS, name, uid=metric.metadata.uid)
        except (errors.NotFound, errors.Conflict):
            pass  # gone already, or replaced by an object of the same name
        else:
            log.info("node %s: deleted the NodeMetric, its Node is gone", name)
        self.cache.node_metrics.remove(name, metric.metadata.uid)


def _changed(patch: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields that a patch sets, with their first keys."""
    for part, fields in patch.items():
        for name, value in (fields if isinstance(fields, dict) else {}).items():
            keys = ", ".join(list(value)[:_MOST_KEYS_LOGGED]) if isinstance(value, dict) else ""
            more = " ..." if isinstance(value, dict) and len(value) > _MOST_KEYS_LOGGED else ""
            yield f"{part}.{name}" + (f" ({keys}{more})" if keys else "")


NAME: Final = f"{names.NODE_METRIC_PLURAL}.{names.GROUP}"
DROPPED: Final = "NodeMetricFieldsDropped"
KEPT: Final = "NodeMetricFieldsKept"


_DOCUMENT: Final = errors.Call(
    "GET",
    f"/openapi/v3/apis/{names.GROUP}/{names.VERSION}",
    verb="get",
    resource=names.NODE_METRIC_PLURAL,
    group=names.GROUP,
)


class OpenApiComponents(msgspec.Struct, frozen=True):
    """The schemas of a group."""

    schemas: dict[str, dict[str, Any]] = {}


class OpenApi(msgspec.Struct, frozen=True):
    """The OpenAPI document of a group."""

    components: OpenApiComponents = OpenApiComponents()


Schema = Mapping[str, Any]


async def read(api: session.Session) -> Schema | None:
    """Read the schema of NodeMetric as it is served, None where there is none. Raises errors.ApiServerError."""
    try:
        document = decoding.decode(_DOCUMENT, await api.send(_DOCUMENT), OpenApi)
    except errors.UnknownResource:
        return None
    kind = {"group": names.GROUP, "kind": names.NODE_METRIC_KIND, "version": names.VERSION}
    schemas = document.components.schemas.values()
    return next((schema for schema in schemas if kind in schema.get("x-kubernetes-group-version-kind", ())), None)


def dropped_fields(served: Schema) -> tuple[str, ...]:
    """Return the paths of the fields that this CRD drops, such as `status.prediction`; of a whole branch its root."""
    return tuple(_missing(crd_manifest.structural_schema(), served, ""))


def _missing(expected: Mapping[str, Any], served: Mapping[str, Any], path: str) -> Iterator[str]:
    if served.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, below in expected.get("properties", {}).items():
        where = f"{path}.{name}".removeprefix(".")
        if name in served.get("properties", {}):
            yield from _missing(below, served["properties"][name], where)
        elif not isinstance(served.get("additionalProperties"), dict):
            yield where
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(expected.get(key), dict) and isinstance(served.get(key), dict):
            yield from _missing(expected[key], served[key], path + mark)


@dataclass(eq=False)
class SchemaWatch:
    """Reports dropped fields when they change: by an Event on the CRD, a log line, a metric and a call."""

    api: session.Session
    recorder: EventRecorder
    telemetry: Telemetry
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    on_change: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._reported: tuple[str, ...] = ()

    async def run(self, period_seconds: float) -> None:
        """Check every period until cancelled."""
        while True:
            try:
                await self.once()
            except errors.ApiServerError as error:
                log.warning("cannot read CRD %s: %s; retrying in %g s", NAME, error, period_seconds)
            await self.sleep(period_seconds)

    async def once(self) -> None:
        """Check once, and report a change. Raises errors.ApiServerError."""
        served = await read(self.api)
        if served is None:
            return
        dropped = dropped_fields(served)
        self.telemetry.dropped_fields.set(len(dropped))
        if dropped == self._reported:
            return
        self._reported = dropped
        self.on_change()
        about = Subject(resources.CUSTOM_RESOURCE_DEFINITIONS, NAME, uid="")
        if dropped:
            await self.recorder.event(about, "Warning", DROPPED, describe_dropped(dropped))
        else:
            await self.recorder.event(about, "Normal", KEPT, "this CRD keeps every field again")


def describe_dropped(dropped: tuple[str, ...]) -> str:
    """Return the dropped fields, the consequence and the fix in one line."""
    return (
        f"this CRD drops {', '.join(dropped)}; Mid resources stay correct, without status.allocated they are "
        "calculated from prodReclaimableMetric. To keep all fields, let the chart install its CRD, a superset "
        "(crds.install=true)"
    )

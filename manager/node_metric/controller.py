"""Controller of one node's NodeMetric: it exists while its Node does, is owned by it, and has the strategy's spec.

The manager writes only its own fields of the spec, by merge patch; the status belongs to the agent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from api_types.kubernetes import pods
from apiserver_client import errors, objects, resources, session
from manager.cache import store
from manager.metrics.telemetry import Telemetry
from manager.node_metric import spec as metric_spec
from manager.node_metric.spec import MetricAction, MetricChange
from manager.slo_config.strategy import NodeStrategy

log = logging.getLogger(__name__)

_MOST_KEYS_LOGGED = 3


class NodeMetricController:
    """Writes the differences from the store and updates the store from the responses.

    `may_evict` returns whether the manager has the right to evict Mid pods.
    """

    def __init__(
        self,
        api: session.Session,
        cache: store.ClusterStore,
        telemetry: Telemetry,
        may_evict: Callable[[], bool] = lambda: False,
    ) -> None:
        self._may_evict = may_evict
        self._api = api
        self._cache = cache
        self._telemetry = telemetry
        self._dropped: dict[str, Mapping[str, Any]] = {}
        """Patches that changed nothing, by node: the CRD drops their fields."""

    def retry_dropped(self) -> None:
        """Send the patches that changed nothing again at the next reconcile: the CRD is another one."""
        self._dropped.clear()

    def forget(self, name: str) -> None:
        """Drop the state of a node that is gone."""
        self._dropped.pop(name, None)

    def differs(self, name: str, strategy: NodeStrategy | None) -> bool:
        """Check whether a NodeMetric is to be created, updated or deleted."""
        todo = self._plan(name, strategy)
        return todo.action is not MetricAction.NONE and self._dropped.get(name) != todo.body

    def _plan(self, name: str, strategy: NodeStrategy | None) -> MetricChange:
        spec = metric_spec.wire_for_node(strategy, may_evict=self._may_evict()) if strategy else None
        return metric_spec.plan(self._cache.nodes.get(name), self._cache.node_metrics.get(name), spec)

    async def reconcile(self, name: str, strategy: NodeStrategy | None) -> None:
        """Create, update or delete. Without a strategy (no configuration yet) an existing spec stays unchanged.

        Raises errors.ApiServerError.
        """
        todo = self._plan(name, strategy)
        if todo.action is MetricAction.CREATE:
            await self._create(name, todo.body)
            todo = self._plan(name, strategy)  # it may have existed already
        metric = self._cache.node_metrics.get(name)
        if todo.action is MetricAction.UPDATE and metric is not None:
            await self._update(name, metric, todo.body)
        elif todo.action is MetricAction.DELETE and metric is not None:
            await self._delete_orphan(name, metric)

    async def _create(self, name: str, body: Mapping[str, Any]) -> None:
        try:
            with self._telemetry.write("node_metric"):
                metric = await objects.create(self._api, resources.NODE_METRICS, body, decode=store.StoredNodeMetric)
        except errors.AlreadyExists:
            metric = await objects.get(self._api, resources.NODE_METRICS, name, decode=store.StoredNodeMetric)
        else:
            log.info("node %s: created the NodeMetric", name)
        self._cache.node_metrics.update(metric)

    async def _update(self, name: str, metric: store.StoredNodeMetric, patch: Mapping[str, Any]) -> None:
        if self._dropped.get(name) == patch:
            return
        log.info("node %s: updating the NodeMetric: %s", name, ", ".join(_changed(patch)))
        try:
            with self._telemetry.write("node_metric"):
                written = await objects.merge_patch(
                    self._api, resources.NODE_METRICS, name, patch, decode=store.StoredNodeMetric
                )
        except errors.NotFound:
            self._cache.node_metrics.remove(name, metric.metadata.uid)
            raise
        if self._cache.node_metrics.has(written):
            self._cache.node_metrics.update(written)
        if written.metadata.resource_version == metric.metadata.resource_version:
            log.debug("node %s: the CRD drops spec fields, see the Event on it", name)
            self._dropped[name] = patch
        else:
            self._dropped.pop(name, None)

    async def _delete_orphan(self, name: str, metric: store.StoredNodeMetric) -> None:
        """Delete a NodeMetric whose Node is gone. Reads the Node first: the store may not hold all nodes yet."""
        try:
            node = await objects.get(self._api, resources.NODES, name, decode=pods.Node)
        except errors.NotFound:
            pass
        else:
            self._cache.nodes.update(node)
            return
        try:
            with self._telemetry.write("node_metric"):
                await objects.delete(self._api, resources.NODE_METRICS, name, uid=metric.metadata.uid)
        except (errors.NotFound, errors.Conflict):
            pass  # gone already, or replaced by an object of the same name
        else:
            log.info("node %s: deleted the NodeMetric, its Node is gone", name)
        self._cache.node_metrics.remove(name, metric.metadata.uid)


def _changed(patch: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields that a patch sets, with their first keys."""
    for part, fields in patch.items():
        for name, value in (fields if isinstance(fields, dict) else {}).items():
            keys = ", ".join(list(value)[:_MOST_KEYS_LOGGED]) if isinstance(value, dict) else ""
            more = " ..." if isinstance(value, dict) and len(value) > _MOST_KEYS_LOGGED else ""
            yield f"{part}.{name}" + (f" ({keys}{more})" if keys else "")

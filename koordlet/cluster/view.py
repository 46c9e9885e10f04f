"""The cluster as the agent sees it: the pods of its node, the node's resources, its own NodeMetric.

Three watches keep it up to date; readers get plain values. While the API server is away, the last known values remain.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Final, TypeVar

import pydantic

from api_types import names
from api_types.colocation import controller_config, node_reservation
from api_types.kubernetes import pods
from api_types.mid_pods import cpu_limits
from api_types.node_metric import types as node_metric
from apiserver_client import resources, session, watching
from koordlet.cluster import pods as pods_on_node
from koordlet.cluster import spec_in_force
from koordlet.prediction.allocation import WholeAmounts

log = logging.getLogger(__name__)

T = TypeVar("T")
_CONDITIONS: Final = pydantic.TypeAdapter(list[node_metric.NodeMetricCondition])


class ClusterView(pods_on_node.ClusterState):
    """Newest known state of the cluster, kept current by `watch`."""

    def __init__(self, node_name: str, policy_below_spec: controller_config.PredictPolicy | None = None) -> None:
        super().__init__()
        self.node_name = node_name
        self._below = policy_below_spec
        self.spec = self._with_policy(self.spec)
        self._logged_refusals: Mapping[str, str] = {}
        self.resource_version: str | None = None
        """Version of the agent's NodeMetric; None while there is none."""
        self.reset_request = ""
        """Value of the annotation that requests a reset of the recorded history, '' where there is none."""
        self.watches = {name: watching.WatchState() for name in ("pods", "node", "node_metric")}

    async def watch(self, api: session.Session) -> None:
        """Keep the view up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_pods(api))
            group.create_task(self._watch_node(api))
            group.create_task(self._watch_node_metric(api))

    async def _events(
        self, api: session.Session, watch: str, resource: resources.Resource, field: str, decode: type[T]
    ) -> AsyncGenerator[watching.Event[T], None]:
        """Watch the objects of one type in which a field is the name of this node."""
        events = watching.list_then_watch(
            api,
            resource,
            field_selector=f"{field}={self.node_name}",
            decode=decode,
            state=self.watches[watch],
            first_list_from_cache=True,
        )
        async with contextlib.aclosing(events):
            async for event in events:
                self._note_unreadable(watch, event)
                yield event

    def _note_unreadable(self, watch: str, event: watching.Event[T]) -> None:
        """Record objects that cannot be decoded: they exist, and their last readable state stays in force."""
        match event:
            case watching.Unreadable():
                self.unreadable[watch, _full_name(event.key)] = event.reason
                log.warning("%s %s cannot be decoded: %s", watch, _full_name(event.key), event.reason)
            case watching.Changed() | watching.Deleted():
                self.unreadable.pop((watch, _full_name(event.key)), None)
            case watching.Synced():
                exist = {_full_name(key) for key in event.keys}
                for gone in [key for key in self.unreadable if key[0] == watch and key[1] not in exist]:
                    del self.unreadable[gone]

    async def _watch_pods(self, api: session.Session) -> None:
        async for event in self._events(api, "pods", resources.PODS, "spec.nodeName", cpu_limits.WrittenPod):
            match event:
                case watching.Changed():
                    self._put_pod(event.object)
                case watching.Deleted():
                    self.pods.drop(*event.key)
                case watching.Synced():
                    self.pods.keep_only(event.keys)

    def log_refused_pods(self) -> None:
        """Log each claim to the UID of another pod once. For a tick: an event of a pod must not cost all of them."""
        refused = self.pods.refused
        for name in sorted(refused.keys() - self._logged_refusals.keys()):
            log.warning("pod %s: %s; the pod is charged its request", name, refused[name])
        self._logged_refusals = refused

    def _put_pod(self, pod: pods.Pod) -> None:
        try:
            self.pods.put(pods_on_node.describe(pod, self.node_name))
        except Exception:  # what a tenant writes must not end the agent of the node
            log.exception("pod %s/%s is ignored: unexpected error", pod.metadata.namespace, pod.metadata.name)

    async def _watch_node(self, api: session.Session) -> None:
        async for event in self._events(api, "node", resources.NODES, "metadata.name", pods.Node):
            if isinstance(event, watching.Changed):
                allocatable = node_reservation.allocatable(event.object)
                self.allocatable = _cpu_and_memory(allocatable.resources)
                problem = "; ".join(map(str, allocatable.problems)) or None
                if problem is not None and problem != self.reservation_problem:
                    log.warning("Node %s: %s; the annotation is ignored", self.node_name, problem)
                self.reservation_problem = problem
                capacity = _cpu_and_memory(node_reservation.capacity(event.object))
                # A kubelet that cannot read the machine reports 0: then the capacity is not known.
                self.capacity = capacity if capacity is not None and all(capacity) else None

    async def _watch_node_metric(self, api: session.Session) -> None:
        async for event in self._events(api, "node_metric", resources.NODE_METRICS, "metadata.name", dict[str, object]):
            match event:
                case watching.Changed():
                    self._follow(event.object)
                case watching.Deleted():
                    self.resource_version = None
                case watching.Synced() if not event.keys:
                    self.resource_version = None

    def _follow(self, document: dict[str, object]) -> None:
        metadata = document["metadata"]
        assert isinstance(metadata, dict)
        self.resource_version = metadata["resourceVersion"]
        self.reset_request = (metadata.get("annotations") or {}).get(names.ANNOTATION_RESET_PREDICTION, "")
        status = document.get("status")
        reported = status.get("conditions") if isinstance(status, dict) else None
        with contextlib.suppress(pydantic.ValidationError):
            self.conditions = _CONDITIONS.validate_python(reported or ())
        try:
            spec = node_metric.NodeMetricSpec.model_validate(document.get("spec") or {})
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            self._reject_spec(f"spec.{'.'.join(map(str, first['loc']))} is {first['input']!r}: {first['msg']}")
            return
        try:
            spec_in_force.aggregate_windows_seconds(spec.metric_collect_policy)
            spec_in_force.usage_window_seconds(spec.metric_collect_policy)
        except ValueError as problem:  # the schema, like Koordinator's, accepts any text and any number
            self._reject_spec(f"spec.metricCollectPolicy.{problem}")
            return
        self.lacks_policy = bool(document.get("spec")) and spec.predict_policy is None and self._below is None
        self.spec, self.spec_problem = self._with_policy(spec), None
        self.generation = metadata.get("generation")

    def _with_policy(self, spec: node_metric.NodeMetricSpec) -> node_metric.NodeMetricSpec:
        if self._below is None:
            return spec
        return spec.model_copy(
            update={"predict_policy": spec_in_force.predict_policy(spec.predict_policy, self._below)}
        )

    def _reject_spec(self, problem: str) -> None:
        self.spec_problem = problem
        log.warning("NodeMetric %s: %s; the previous spec stays in force", self.node_name, problem)

    def note_write(self, sent_version: str, stored_version: str | None) -> None:
        """Store the version after the agent's own write, so that the next one need not wait for the watch.

        None shows that there is no NodeMetric any more. What the watch has brought during the write is kept.
        """
        if self.resource_version == sent_version:
            self.resource_version = stored_version


def _full_name(key: watching.Key) -> str:
    return "/".join(filter(None, key))


def _cpu_and_memory(units: pods.Resources) -> WholeAmounts | None:
    if names.CPU not in units or names.MEMORY not in units:
        return None
    return WholeAmounts(units[names.CPU], units[names.MEMORY])

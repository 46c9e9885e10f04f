"""Read a snapshot from the apiserver, each kind of object once, in pages, decoded to the fields that are shown.

A kind that the caller may not read, or that is not served, is noted in `Snapshot.unread`, and the rest is read.
Every function raises errors.ApiServerError where the apiserver does not answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, TypeVar

from api_types import names
from api_types.kubernetes import pods, times
from api_types.kubernetes.pods import Pod
from api_types.kubernetes.priority_and_qos import compact
from api_types.mid_pods import quota
from apiserver_client import decoding, errors, objects, resources, session
from fleet import admission_rules, mid_explanation, node_state, pod_state, scheduler_config, wire
from fleet.findings import (
    AGENT,
    MANAGER,
    MID_LIMITS,
    PARTS,
    AdmissionRules,
    FleetSnapshot,
    Installation,
    Unread,
    label,
)
from fleet.node_state import UNKNOWN, Amounts, NodeState
from fleet.scheduler_config import SchedulerConfig
from manager import lease
from manager.cache import store
from manager.slo_config import evaluation

T = TypeVar("T")
WORKLOADS: Final = {name: resources.DAEMON_SETS if name == AGENT else resources.DEPLOYMENTS for name in PARTS}
PRIORITY_CLASSES: Final = resources.Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
_OWN_RULE: Final = re.compile(r"'koord-suite-[a-z-]{1,40}'|koord-suite\.io")
_REFUSED_SECONDS: Final = 1_200.0
"""Longer than the longest pause between two attempts of a controller."""
_MOST_REFUSED: Final = 100
OF_NODES: Final = "default"
"""Namespace of the Events about nodes."""
_MOST_SHORT: Final = 3
"""Nodes short of Mid whose pods are read, to name what would be evicted."""
_MANAGER: Final = f"{resources.DEPLOYMENTS.plural}/{MANAGER}"
_NO_CONFIG: Final = SchedulerConfig()
_VERSION: Final = errors.Call("GET", "/version", "get", "version")


class Reader:
    """Reads of one command. `unread` grows; `on_progress` gets the number of objects of a kind that are read."""

    def __init__(
        self,
        api: session.Session,
        now: dt.datetime,
        on_progress: Callable[[str, int], None] = lambda _what, _count: None,
    ) -> None:
        self.api = api
        self.now = now
        self._on_progress = on_progress
        self.unread: list[Unread] = []
        self.malformed_quotas: dict[str, str] = {}
        """Problem of the annotation mid-quota of each namespace where it is malformed."""

    @contextlib.contextmanager
    def attempt(self, what: str, *, is_optional: bool = False, notes_rights: bool = True) -> Iterator[None]:
        """Note objects that are not there, unless optional, or not to be read by the caller, and continue."""
        try:
            yield
        except errors.Forbidden as error:
            if notes_rights:
                self.unread.append(Unread(what, str(error), is_right=True))
        except (errors.NotFound, errors.UnknownResource) as error:
            if not is_optional:
                self.unread.append(Unread(what, str(error)))

    async def snapshot(self, namespace: str) -> FleetSnapshot:
        """Read everything that the checks need; `namespace` is that of the suite."""
        nodes, installed = await self.nodes(explains_short=True), await self.installation(namespace)
        pending = classes = None
        with self.attempt("priorityclasses"):
            classes = (await objects.list_all(self.api, PRIORITY_CLASSES, decode=wire.WirePriorityClass)).items
        with self.attempt("pods"):
            selector = "status.phase=Pending"
            pending = (await objects.list_all(self.api, resources.PODS, field_selector=selector, decode=Pod)).items
        config = await self.scheduler_config(namespace, notes_rights=False)
        if config.namespace_quotas:
            await self.mid_quotas(None)
        refused = await self._recent_events("FailedCreate", lambda event: _OWN_RULE.search(event.message))
        trusted = (namespace, OF_NODES)
        lacking = await self._recent_events("MidEvictionNotAllowed", lambda event: event.metadata.namespace in trusted)
        read = (self.now, self.api.server, nodes, installed, tuple(self.unread), config.usage_limits, classes, pending)
        return FleetSnapshot(*read, refused, lacking, self.malformed_quotas)

    async def nodes(
        self, label_selector: str | None = None, *, explains_short: bool = False
    ) -> tuple[NodeState, ...] | None:
        """Return the state of every node that the selector matches; None where neither kind may be read.

        With `explains_short`, the first nodes that are short of Mid have the pod that would be evicted.
        """
        states, to_explain = [], _MOST_SHORT if explains_short else 0
        async for name, node, metric in self.pairs(label_selector):
            state = node_state.combine(name, node, metric, self.now)
            if to_explain and state.short and node:
                to_explain -= 1
                with self.attempt("pods"):
                    sentences = await mid_explanation.explain_eviction(self.api, node, metric, self.now)
                    eviction = next((text for text in sentences if text.startswith("next, ")), "")
                    state = dataclasses.replace(state, eviction=eviction)
            states.append(state)
        if self._is_unread("nodes") and self._is_unread("nodemetrics"):
            return None
        return tuple(sorted(states, key=lambda state: state.name))

    async def pairs(
        self, label_selector: str | None = None
    ) -> AsyncIterator[tuple[str, store.StoredNode | None, wire.WireNodeMetric | None]]:
        """Yield each node with its NodeMetric, of which one may be missing; no NodeMetric is kept."""
        nodes: dict[str, store.StoredNode] = {}
        selector = objects.selectors(None, label_selector)
        with self.attempt("nodes"):
            async for node in self._each(resources.NODES, pods.Node, parameters=selector):
                nodes[node.metadata.name] = store.with_mid_status(
                    store.with_read_annotations(node, names.ANNOTATION_USAGE_THRESHOLDS)
                )
        if selector and self._is_unread("nodes"):
            return
        with_reports = set[str]()
        with self.attempt("nodemetrics"):
            async for metric in self._each(resources.NODE_METRICS, wire.WireNodeMetric):
                name = metric.metadata.name
                with_reports.add(name)
                if name in nodes or self._is_unread("nodes"):
                    yield name, nodes.get(name), metric
        for name, node in nodes.items():
            if name not in with_reports:
                yield name, node, None

    async def pods(
        self, namespace: str | None, node: str | None = None, label_selector: str | None = None
    ) -> tuple[pod_state.PodState, ...] | None:
        """Return the state of the pods that have not ended, with the usage that the reports have of them."""
        running = list[pods.Pod]()
        with self.attempt("pods"):
            running = [pod async for pod in self._running(namespace, node, label_selector)]
        if self._is_unread("pods"):
            return None
        used: dict[tuple[str, str, str], Amounts] = {}
        with self.attempt("nodemetrics"):
            node_names = {pod.spec.node_name for pod in running}
            async for metric in self._reports(node):
                on = metric.metadata.name
                if on not in node_names:
                    continue
                for pod_metric in (metric.status.pods_metric if metric.status else None) or ():
                    if namespace in (None, pod_metric.namespace):
                        key = (on, pod_metric.namespace, pod_metric.name)
                        used[key] = node_state.native_amounts(pod_metric.pod_usage.resources)
        return tuple(
            pod_state.combine(pod, used.get((pod.spec.node_name, pod.metadata.namespace, pod.metadata.name), UNKNOWN))
            for pod in running
        )

    async def namespaces(
        self,
        namespace: str | None = None,
        node: str | None = None,
        label_selector: str | None = None,
        band: str | None = None,
        config: SchedulerConfig = _NO_CONFIG,
    ) -> tuple[pod_state.NamespaceState, ...] | None:
        """Sum the pods of each namespace that have not ended, with the usage that the reports have of them.

        With `band`, only pods of it count; `config` has the quota of a namespace without an annotation.
        No pod is kept: those of 5,000 nodes take hundreds of MiB.
        """
        sums = pod_state.NamespaceSums()
        with self.attempt("pods"):
            async for pod in self._running(namespace, node, label_selector):
                state = pod_state.combine(pod, UNKNOWN)
                if band in (None, state.band):
                    sums.add(state)
        if self._is_unread("pods"):
            return None
        with self.attempt("nodemetrics"):
            async for metric in self._reports(node):
                for pod_metric in (metric.status.pods_metric if metric.status else None) or ():
                    used = node_state.native_amounts(pod_metric.pod_usage.resources)
                    sums.add_usage(metric.metadata.name, pod_metric.namespace, pod_metric.name, used)
        quotas = await self.mid_quotas(namespace, config.default_quota) if config.namespace_quotas else {}
        return tuple(sums.states(quotas, config.default_quota))

    async def scheduler_config(self, suite_namespace: str, *, notes_rights: bool = True) -> SchedulerConfig:
        """Read the configuration of the scheduler plugin: the first ConfigMap that there is."""
        for name in scheduler_config.CONFIG_MAPS:
            config_map = await self._config_map(suite_namespace, name, is_optional=True, notes_rights=notes_rights)
            if config_map is not None:
                return scheduler_config.read((config_map.data or {}).get(scheduler_config.KEY, ""))
        return SchedulerConfig()

    async def _recent_events(self, reason: str, is_own: Callable[[wire.WireEvent], object]) -> list[wire.WireEvent]:
        """Read the newest of the recent Events about each object, the newest first."""
        newest: dict[tuple[str, str], wire.WireEvent] = {}
        with self.attempt("events"):
            selector = objects.selectors(f"reason={reason}", None)
            async for event in self._each(resources.EVENTS, wire.WireEvent, parameters=selector):
                time, about = event.time, (event.involved_object.kind, event.key)
                if time is None or not -_REFUSED_SECONDS < (self.now - time).total_seconds() < _REFUSED_SECONDS:
                    continue
                before = newest.get(about)
                is_newer = before is None or (before.time or time) < time
                if is_newer and is_own(event) and (before or len(newest) < _MOST_REFUSED):
                    newest[about] = event
        return sorted(newest.values(), key=lambda event: event.time or self.now, reverse=True)

    async def mid_quotas(self, namespace: str | None, default: Amounts = UNKNOWN) -> dict[str, Amounts | None]:
        """Return the mid-quota of each namespace that has the annotation; None for a malformed one."""
        quotas: dict[str, Amounts | None] = {}
        with self.attempt("namespaces"):
            selector = objects.selectors(f"metadata.name={namespace}" if namespace else None, None)
            async for item in self._each(resources.NAMESPACES, pods.AnyObject, parameters=selector):
                text = pods.annotation_map(item.metadata).get(names.ANNOTATION_MID_QUOTA)
                if text is None:
                    continue
                try:
                    quotas[item.metadata.name] = Amounts(*quota.read(text, quota.MidQuota(*default)))
                except quota.MalformedQuota as error:
                    quotas[item.metadata.name], self.malformed_quotas[item.metadata.name] = None, str(error)
        return quotas

    async def _running(self, namespace: str | None, node: str | None, label_selector: str | None) -> AsyncIterator[Pod]:
        """Yield the pods that have not ended."""
        selector = objects.selectors(f"spec.nodeName={node}" if node else None, label_selector)
        async for pod in self._each(resources.PODS, pods.Pod, namespace=namespace, parameters=selector):
            if not pods.is_terminal(pod):
                yield compact(pod)

    async def _reports(self, node: str | None) -> AsyncIterator[wire.NodeMetricWithPods]:
        """Yield the report of a node, or those of all."""
        if node is not None:
            yield await objects.get(self.api, resources.NODE_METRICS, node, decode=wire.NodeMetricWithPods)
            return
        async for metric in self._each(resources.NODE_METRICS, wire.NodeMetricWithPods):
            yield metric

    async def installation(self, namespace: str) -> Installation:
        """Read the objects of the suite in its namespace."""
        read = {part: await self.workload(namespace, part) for part in WORKLOADS}
        workloads = {part: workload for part, workload in read.items() if workload}
        leader = await self.lease(namespace, MANAGER, workloads.get(MANAGER))
        config_map = _config_map_name(workloads.get(MANAGER))
        return Installation(
            namespace=namespace,
            kubernetes=await self.kubernetes(),
            workloads=workloads,
            admission=await self._admission_rules(),
            leader=leader.holder_identity or "",
            renewed=times.parse_rfc3339_or_none(leader.renew_time),
            outcome=await self.configuration(namespace, config_map),
            config_map=config_map,
        )

    async def workload(self, namespace: str, part: str) -> wire.WireWorkload | None:
        """Read the workload of a part by its label: the chart may put a prefix before its name."""
        resource = WORKLOADS[part]
        with self.attempt(f"{resource.plural}/{part}"):
            listed = await objects.list_all(
                self.api, resource, namespace=namespace, label_selector=label(part), decode=wire.WireWorkload
            )
            return next(iter(listed.items), None)
        return None

    async def lease(self, namespace: str, part: str, workload: wire.WireWorkload | None) -> lease.LeaseSpec:
        """Read the Lease of a part, which has the name of its workload; an empty one where it may not be read."""
        name = workload.metadata.name if workload else part
        with self.attempt(f"leases/{name}"):
            return (await objects.get(self.api, resources.LEASES, name, namespace=namespace, decode=lease.Lease)).spec
        return lease.LeaseSpec()

    async def _admission_rules(self) -> AdmissionRules | None:
        """Read what sets limits and scheduler of new Mid pods; None where it may not be read."""
        rules = [admission_rules.WEBHOOKS, *admission_rules.POLICY_BINDINGS]
        for kind in rules:
            with self.attempt(f"{kind.plural}/{MID_LIMITS}", is_optional=True):
                read = await objects.get(self.api, kind, MID_LIMITS, decode=wire.WireWebhooks)
                is_webhook = kind is admission_rules.WEBHOOKS
                return AdmissionRules("webhook" if is_webhook else "policy", admission_rules.valid_until(read))
        is_unread = any(self._is_unread(f"{kind.plural}/{MID_LIMITS}") for kind in rules)
        return None if is_unread else AdmissionRules()

    async def kubernetes(self) -> str:
        """Read the version of the apiserver, such as 1.34.4; empty where it may not be read."""
        with self.attempt("version"):
            version = decoding.decode(_VERSION, await self.api.send(_VERSION), wire.WireVersion)
            return version.git_version.removeprefix("v")
        return ""

    async def config_map(self, namespace: str) -> str:
        """Read the name of the ConfigMap that the manager reads, an argument of its Deployment."""
        return _config_map_name(await self.workload(namespace, MANAGER))

    async def configuration(self, namespace: str, config_map: str) -> evaluation.ConfigOutcome | None:
        """Evaluate the ConfigMaps as a starting manager does; None where the users' one may not be read.

        None as well where it is not there, and its name is only a guess.
        """
        current, stored = [await self._config_map(namespace, name) for name in (config_map, names.LAST_GOOD_CONFIG)]
        is_guess = any(gap.what == _MANAGER and gap.is_right for gap in self.unread)
        if any(gap.what == f"configmaps/{config_map}" and (gap.is_right or is_guess) for gap in self.unread):
            return None
        before = evaluation.restore(stored.data if stored else None)
        return evaluation.evaluate(before, current.data if current else None, exists=current is not None)

    async def _config_map(self, namespace: str, name: str, **attempt: bool) -> store.ConfigMap | None:
        with self.attempt(f"configmaps/{name}", **attempt):
            return await objects.get(self.api, resources.CONFIG_MAPS, name, namespace=namespace, decode=store.ConfigMap)
        return None

    def _is_unread(self, what: str) -> bool:
        return any(gap.what == what for gap in self.unread)

    async def _each(
        self,
        resource: resources.Resource,
        decode: type[T],
        *,
        namespace: str | None = None,
        parameters: session.Parameters | None = None,
    ) -> AsyncIterator[T]:
        """Yield the objects of a list; one that cannot be decoded is counted in `unread`."""
        count, bad, left_out = 0, list[str](), list[str]()
        items = objects.list_items(
            self.api,
            resource,
            namespace=namespace,
            parameters=parameters or {},
            on_unreadable=lambda _, error: left_out.append(str(error)),
        )
        async with contextlib.aclosing(items):
            async for item in items:
                if isinstance(item, decoding.PageMetadata):
                    self._on_progress(resource.plural, count)
                    continue
                count += 1
                key = decoding.identify(item, resource.kind).key
                try:
                    yield decoding.decode_object(item, resource.kind, key, decode)
                except errors.DecodeError as error:
                    bad.append(str(error))
        if unreadable := left_out + bad:
            what = f"{len(unreadable)} of {count + len(left_out)} {resource.plural}"
            self.unread.append(Unread(what, unreadable[-1]))


def _config_map_name(manager: wire.WireWorkload | None) -> str:
    """Return the ConfigMap that a manager reads; the chart's default where its Deployment does not state it."""
    return (manager.argument("--config-map") if manager else "") or names.SLO_CONTROLLER_CONFIG

"""Adapter from documents to verdicts: the only module here that knows through what the product is called today.

Time is in seconds after `NOW`. The steps of a case:

    {"clock": 30}                             the time from here on
    {"apply": object}                         a Node, Pod, NodeMetric, Namespace or ConfigMap was added or changed
    {"delete": object}                        it was deleted; kind and metadata are enough
    {"measurements": document}                a load watcher answers with this document
    {"refresh": true}                         the built-in load watcher reads its providers once
    {"silent": 120}                           time since the last event of the watch of NodeMetrics
    {"place": pod, "nodes": [...]}            a question; "bind": node binds the pod, "waits": true leaves it pending
    {"preempt": pod, "victims": {node: [uid]}}  a question: which nodes would pass without these pods
    {"explain": "namespace/name"}             a question: the inputs of the last decision on this pod
    {"count": true}                           a question: counters of nodes
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import json
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from api_types.kubernetes import pods
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.decisions import explanation
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import Windows
from scheduler_plugin.plugins.trimaran.feed import MeasurementFeed
from scheduler_plugin.state import mid_watches
from scheduler_plugin.state.node_report import NodeMetric

NOW: Final = 1_700_000_000.0
QUOTA: Final = "koordinator.sh/mid-quota"
REASONS: Final = {
    "node(s) nodeMetric expired": "expired",
    "node(s) didn't have enough Mid resources left by the newest report": "mid: too little left",
    "node(s) accept no new Mid pods after an eviction": "mid: evicted",
    "node(s) accept no new Mid pods because they are or may be about to be removed": "mid: leaving",
    "node(s) accept no new Mid pods because they are emptied for the autoscaler": "mid: emptied",
    "node(s) accept no new Mid pods while midEmergency is freeze or drain": "mid: frozen",
    "node(s) accept no more Mid pods of a namespace than its mid-quota": "mid: quota",
    "node(s) accept no new Mid pods until the list of namespaces has their mid-quotas": "mid: quotas unknown",
}
_ELSEWHERE: Final = "elsewhere"
"""Node of a pod that counts in its namespace, and on no node of the case."""
COUNTERS: Final = ("koord_scheduler_plugin_node_problems", "koord_scheduler_plugin_fallback_level_nodes")


def moment(offset: float) -> str:
    """Return NOW + offset seconds as RFC 3339 text."""
    return dt.datetime.fromtimestamp(NOW + offset, dt.UTC).isoformat().replace("+00:00", "Z")


def answers(case: dict[str, Any], made_by: Callable[..., Scheduler] | None = None) -> list[Any]:
    """Return the answers of the product to the questions of a case, in their order."""
    made_by = made_by or Scheduler
    try:
        profile = case["profile"]  # a text is YAML, which has infinity
        configuration = loader.parse(yaml.safe_load(profile) if isinstance(profile, str) else profile)
    except loader.InvalidConfiguration as error:
        return [{"problems": [text.partition(": seen ")[0] for text in error.problems]}]
    scheduler = made_by(configuration, case.get("measurementAgeSeconds", 300.0))
    if case.get("effective"):
        return [json.loads(json.dumps(configuration.document()))]
    given = (scheduler.step(step) for step in case["steps"])
    return [answer for answer in given if answer is not None]


class Scheduler:
    """The product as kube-scheduler and the API server meet it."""

    def __init__(self, configuration: loader.PluginConfiguration, measurement_age_seconds: float) -> None:
        self._offset = 0.0
        self._silent_seconds: float | None = None
        self._parts = assembly.Parts(
            configuration,
            measurement_age_seconds=measurement_age_seconds,
            monotonic=lambda: self._offset,
        )
        self._parts.extender.assumed_seconds = 0.0  # a case states itself what counts
        self._windows = Windows(math.inf)
        self._registry = CollectorRegistry()
        for collector in self._parts.collectors():
            self._registry.register(collector)
        self._pods: dict[str, dict[str, Any]] = {}

    def step(self, step: dict[str, Any]) -> Any:
        """Play one step; return the answer if it is a question."""
        (kind, value), *options = step.items()
        return getattr(self, f"_{kind}")(value, **dict(options))

    @property
    def _now(self) -> float:
        return NOW + self._offset

    # events

    def _clock(self, offset: float) -> None:
        self._offset = offset
        self._parts.cluster.expire_assumed()

    def _silent(self, seconds: float | None) -> None:
        self._silent_seconds = seconds

    def _apply(self, document: dict[str, Any]) -> None:
        parts, name = self._parts, document["metadata"]["name"]
        body = msgspec.json.encode(document)
        match document["kind"]:
            case "Node":
                parts.cluster.node_changed(msgspec.json.decode(body, type=pods.Node))
            case "NodeMetric":
                parts.cluster.metric_changed(msgspec.json.decode(body, type=NodeMetric))
            case "Namespace":
                text = document["metadata"].get("annotations", {}).get(QUOTA)
                parts.vectors.mid_quotas.namespace_changed(name, text)
            case "ConfigMap":
                frozen = mid_watches.is_frozen(document["data"]["colocation-config"])
                if frozen is not None:
                    parts.vectors.frozen = frozen
            case "Namespaces":  # whether the list of them is complete
                parts.vectors.mid_quotas.is_known = document["complete"]
            case "Pod" if document["spec"].get("nodeName"):
                parts.cluster.pod_changed(msgspec.json.decode(body, type=pods.Pod), self._now)

    def _delete(self, document: dict[str, Any]) -> None:
        parts, metadata = self._parts, document["metadata"]
        match document["kind"]:
            case "Node":
                parts.cluster.node_deleted(metadata["name"])
            case "NodeMetric":
                parts.cluster.metric_deleted(metadata["name"])
            case "Namespace":
                parts.vectors.mid_quotas.namespace_changed(metadata["name"], None)
            case "Pod":
                parts.cluster.pod_deleted(metadata["namespace"], metadata["name"], metadata.get("uid"))
                parts.cluster.stop_assuming(f"{metadata['namespace']}/{metadata['name']}", metadata.get("uid", ""))

    def _measurements(self, document: dict[str, Any]) -> None:
        parts = self._parts
        self._windows.store(records.decode(msgspec.json.encode(document)))
        parts.measurements.select(self._windows, self._now)
        for entry in parts.cluster.entries.values():
            for plugin in parts.measured:
                plugin.write(entry)
        parts.measurements.confirm_rows()

    def _refresh(self, _value: bool) -> None:
        asyncio.run(self._refreshed())

    async def _refreshed(self) -> None:
        parts, registry = self._parts, CollectorRegistry()
        feed = MeasurementFeed(
            parts.provider_specs, parts.measurements, parts.measured, parts.cluster, lambda: self._now
        )
        # The providers of these cases read reports alone, and need no session.
        running = asyncio.create_task(feed.run(None, registry, 3600.0))  # type: ignore[arg-type]
        while not running.done() and (registry.get_sample_value("koord_load_watcher_refreshes_total") or 0) < 3:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.03)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        self._registry = registry

    # questions

    def _place(
        self, pod: dict[str, Any], nodes: list[str] | None = None, bind: str = "", waits: bool = False
    ) -> dict[str, Any]:
        """Return score of each node that passes, and [score, reason] of each other; no score is None."""
        extender, metadata = self._parts.extender, pod["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        self._parts.check_blindness(self._silent_seconds, self._now)
        names = nodes or [name for name in self._parts.vectors.rows if name != _ELSEWHERE]
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()
        filtered = json.loads(extender.filter(body, self._now))
        failed = {**(filtered.get("FailedNodes") or {}), **(filtered.get("FailedAndUnresolvableNodes") or {})}
        passed = filtered.get("NodeNames") or []
        if passed and len(passed) < len(names):
            failed = self._reasons_of_each(pod, [name for name in names if name not in passed])
        prioritized = json.loads(extender.prioritize(body, self._now))
        scores = {entry["Host"]: entry["Score"] for entry in prioritized}
        counted = bind or (_ELSEWHERE if waits else "")
        if counted and not failed:  # a pod that some node refuses is asked about again, which ends what it held
            seconds = 120.0 if bind else 60.0
            self._parts.cluster.assume_pod(msgspec.convert(pod, type=pods.Pod), counted, self._now, seconds)
        if bind and not failed:
            self._parts.records.bound(key, metadata["uid"], bind)
        return {
            name: [scores.get(name), reason(failed[name])] if name in failed else scores.get(name) for name in names
        }

    def _reasons_of_each(self, pod: dict[str, Any], names: list[str]) -> dict[str, str]:
        """Ask again without the nodes that pass: the protocol has no reasons beside them."""
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()
        filtered = json.loads(self._parts.extender.filter(body, self._now))
        reasons: dict[str, str] = filtered["FailedAndUnresolvableNodes"]
        return reasons

    def _preempt(self, pod: dict[str, Any], victims: dict[str, list[str]]) -> list[str]:
        """Return the nodes that pass without the victims."""
        self._parts.check_blindness(self._silent_seconds, self._now)
        named = {name: {"Pods": [{"UID": uid} for uid in uids]} for name, uids in victims.items()}
        body = json.dumps({"Pod": pod, "NodeNameToMetaVictims": named}).encode()
        return list(json.loads(self._parts.extender.preempt(body, self._now))["NodeNameToMetaVictims"])

    def _explain(self, key: str) -> dict[str, Any]:
        """Return the inputs of the last decision on a pod, by node."""
        parts = self._parts
        page = explanation.page(key, parts.records.decisions(key)[:1], parts.cycle.rejecting_plugins, parts.resources)
        return {node["node"]: [node["scores"], node["inputs"]] for node in page["decisions"][0]["nodes"]}

    def _count(self, _value: bool) -> dict[str, float]:
        """Return the samples of `COUNTERS`."""
        families = text_string_to_metric_families(generate_latest(self._registry).decode())
        return {
            " ".join(sample.labels.values()): sample.value
            for family in families
            if family.name in COUNTERS
            for sample in family.samples
        }


@functools.cache
def reason(text: str) -> str:
    """Return the class of a reason, and the numbers that follow it."""
    known, colon, numbers = text.partition(": ")
    if known in REASONS:
        return f"{REASONS[known]}{colon}{numbers}"
    return text.removeprefix("node(s) ").removesuffix(" exceed threshold")

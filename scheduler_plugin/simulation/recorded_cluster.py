"""Conversion of a recorded cluster to a scenario: running pods continue, pending pods arrive.

The usage of a pod comes from the first known source of: its annotation, the usage file, the report of its node, a share
of its requests. The usage of a node beyond its pods stays as reported. A node with a missing or outdated report sends
no further reports.
"""

from __future__ import annotations

import bisect
import csv
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import yaml

from api_types import names
from api_types.kubernetes import pods, quantities
from apiserver_client import objects, resources, session
from scheduler_plugin.simulation.scenario import BEGINNING, Scenario, SimulatedNode, SimulatedPod
from scheduler_plugin.state import node_report, pod_info, vectors
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.node_columns import Floats
from scheduler_plugin.state.node_report import NodeReport

T = TypeVar("T")
ANNOTATION: Final = names.ANNOTATION_SIMULATION
"""Pod annotation in JSON: cpu and memory (its usage), afterSeconds (time of its arrival), lifetimeSeconds."""

_RENEWALS_MISSED: Final = 3
_RESOURCES: Final = (names.CPU, names.MEMORY)
_REQUESTED: Final = {
    names.CPU: (names.CPU, names.MID_CPU, names.BATCH_CPU),
    names.MEMORY: (names.MEMORY, names.MID_MEMORY, names.BATCH_MEMORY),
}


_ANY_NAMESPACE: Final = EstimatorArgs((), {})


class BadRecording(Exception):
    """The objects cannot be replayed; the message names the object."""


@dataclass(frozen=True)
class Recording:
    """Objects of a cluster at one moment, as JSON. With `metrics` None the agents report the simulated usage."""

    pods: Sequence[Mapping[str, Any]]
    nodes: Sequence[Mapping[str, Any]]
    metrics: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True)
class Play:
    """Settings for the continuation of a recording."""

    hours: float = 24.0
    step_seconds: float = 60.0
    everything: bool = False
    """Place all pods again, except pods bound to their node; otherwise only pods without a node."""
    arrival_interval_seconds: float = 1.0
    """Interval of the arrivals of pods without afterSeconds, in the order of their creation."""
    usage_percent: float = 50.0
    """Usage of a pod without any known usage, as a share of its requests."""
    usage: Mapping[str, Floats] = field(default_factory=dict)
    """Usage by namespace/name, shape (2, steps), on the same steps."""


class _Hints(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    cpu: str | int | float | None = None
    memory: str | int | float | None = None
    after_seconds: float | None = None
    lifetime_seconds: float = math.inf


def to_scenario(recording: Recording, play: Play) -> Scenario:
    """Convert a recording to a scenario. Raises BadRecording."""
    metrics = {_name(document): document for document in recording.metrics or ()}
    reports = {name: _report(document) for name, document in metrics.items()}
    reported = {
        key: np.array(usage[:2], dtype=np.float64) for report in reports.values() for key, usage in report.pods.items()
    }
    recorded = [_named(_decoded(document, pods.Pod)) for document in recording.pods]
    simulated = list(_pods(recorded, play, reported))
    moments = [report.update_time for report in reports.values() if report.update_time is not None]
    began_at = max(moments, default=BEGINNING)
    known_usage: dict[str, Floats] = {}
    for pod in recorded:
        if name := pod.spec.node_name:
            usage = reported.get(pod_info.key(pod), np.zeros(2))
            known_usage[name] = known_usage.get(name, np.zeros(2)) + usage
    nodes = []
    for document in recording.nodes:
        node = _decoded(document, pods.Node)
        name = node.metadata.name
        report = reports.get(name)
        whole = (report and report.node_usage) or (0, 0)
        other = np.maximum(np.array(whole) - known_usage.get(name, np.zeros(2)), 0)
        is_alive = report is not None and _is_alive(report, began_at)
        nodes.append(
            SimulatedNode(
                node,
                other_usage=(float(other[0]), float(other[1])),
                recorded=None if play.everything and is_alive else metrics.get(name),
                agent_reports=recording.metrics is None or is_alive,
            )
        )
    if not nodes:
        raise BadRecording("the recording has no nodes, want at least one")
    steps = max(round(play.hours * 3600 / play.step_seconds), 1)
    return Scenario(nodes, simulated, play.step_seconds, steps, began_at)


def _pods(recorded: Sequence[pods.Pod], play: Play, reported: Mapping[str, Floats]) -> Iterator[SimulatedPod]:
    """Yield the pods in the order of their creation; a pod that is pinned to a node but has none is skipped."""
    turns = itertools.count()
    for pod in sorted(recorded, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.uid)):
        if not pod_info.counts_on_its_node(pod, _ANY_NAMESPACE):
            continue
        is_pinned = pod_info.is_pinned(pod)
        stays = bool(pod.spec.node_name) and (is_pinned or not play.everything)
        if not stays and is_pinned:
            continue
        hints = _hints(pod)
        usage = _usage(pod, hints, play, reported)
        if stays:
            yield SimulatedPod(pod, usage, 0.0, hints.lifetime_seconds)
            continue
        at = hints.after_seconds if hints.after_seconds is not None else next(turns) * play.arrival_interval_seconds
        spec = msgspec.structs.replace(pod.spec, node_name="")
        arriving = msgspec.structs.replace(pod, spec=spec, status=pods.PodStatus(phase="Pending"))
        yield SimulatedPod(arriving, usage, at, hints.lifetime_seconds)


def _usage(pod: pods.Pod, hints: _Hints, play: Play, reported: Mapping[str, Floats]) -> Floats:
    key = pod_info.pod_key(pod.metadata.namespace, pod.metadata.name)
    if hints.cpu is not None or hints.memory is not None:
        amounts = vectors.amounts({names.CPU: hints.cpu or 0, names.MEMORY: hints.memory or 0}, _RESOURCES)
        if amounts is None:
            raise BadRecording(f"pod {key}: annotation {ANNOTATION}: cpu or memory is not a quantity")
        return np.array(amounts, dtype=np.float64)[:, np.newaxis]
    if key in play.usage:
        return play.usage[key]
    if key in reported:
        return reported[key][:, np.newaxis]
    try:
        for container in (*pod.spec.containers, *(pod.spec.init_containers or ())):
            pods.units(container.resources.requests)  # its error has the text
        requests = quantities.known(pods.requests(pod.spec))
    except quantities.InvalidQuantity as error:
        raise BadRecording(f"pod {key}: {error}") from error
    requested = [sum(requests.get(name, 0) for name in spellings) for spellings in _REQUESTED.values()]
    return np.array(requested, dtype=np.float64)[:, np.newaxis] * play.usage_percent / 100


def _hints(pod: pods.Pod) -> _Hints:
    text = pods.annotation_map(pod.metadata).get(ANNOTATION)
    if text is None:
        return _Hints()
    try:
        return msgspec.json.decode(text, type=_Hints)
    except msgspec.DecodeError as error:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        raise BadRecording(f"pod {name}: annotation {ANNOTATION} is {text!r}: {error}") from error


def _is_alive(report: NodeReport, now: float) -> bool:
    """Return whether the agent was still renewing its report at the time of the recording."""
    return report.update_time is not None and now - report.update_time < _RENEWALS_MISSED * report.interval_seconds


def _named(pod: pods.Pod) -> pods.Pod:
    meta = pod.metadata
    namespace = meta.namespace or "default"
    uid = meta.uid or f"{namespace}/{meta.name}"
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, namespace=namespace, uid=uid))


def _decoded(document: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise BadRecording(f"{kind.__name__} {_name(document)}: {error}") from error


def _report(document: Mapping[str, Any]) -> NodeReport:
    """Read a report from its JSON, as the product does."""
    try:
        metric = msgspec.json.decode(msgspec.json.encode(document), type=node_report.NodeMetric)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadRecording(f"NodeMetric {_name(document)}: {error}") from error
    return node_report.read(metric, _RESOURCES)


def _name(document: Mapping[str, Any]) -> Any:
    metadata = document.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


_MOST_SECONDS: Final = 366 * 86400
COLUMNS: Final = ("pod", "seconds", "cpu", "memory")


def usage_series(text: str, step_seconds: float) -> Mapping[str, Floats]:
    """Parse a CSV file of pod, seconds since its start, cpu and memory.

    Return arrays of shape (2, steps), CPU milli-cores and memory bytes, by namespace/name. A line applies until the
    next one of its pod, the first also before its time, the last to the end. Raises BadRecording.
    """
    reader = csv.DictReader(text.splitlines())
    try:
        rows = list(reader)
    except csv.Error as error:
        raise BadRecording(f"line {reader.line_num + 1} cannot be read: {error}") from error
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise BadRecording(f"line 1 is {','.join(reader.fieldnames or ())!r}, want {','.join(COLUMNS)}")
    points: dict[str, list[tuple[float, int, int]]] = {}
    for number, row in enumerate(rows, start=2):
        try:
            seconds = float(row["seconds"])
            amounts = (quantities.cpu_millis(row["cpu"]), quantities.resource_units(names.MEMORY, row["memory"]))
        except (TypeError, ValueError, quantities.InvalidQuantity) as error:
            raise BadRecording(f"line {number} cannot be read: {error}") from error
        if not 0 <= seconds <= _MOST_SECONDS or min(amounts) < 0:
            raise BadRecording(
                f"line {number} is {','.join(map(str, row.values()))!r}, want numbers of 0 or more, up to a year"
            )
        points.setdefault(row["pod"], []).append((seconds, *amounts))
    return {pod: _on_grid(sorted(pod_points), step_seconds) for pod, pod_points in points.items()}


def _on_grid(points: list[tuple[float, int, int]], step_seconds: float) -> Floats:
    moments = [point[0] for point in points]
    steps = int(moments[-1] // step_seconds) + 1 + (moments[-1] % step_seconds > 0)
    chosen = [points[max(bisect.bisect_right(moments, step * step_seconds) - 1, 0)] for step in range(steps)]
    return np.array([[point[1] for point in chosen], [point[2] for point in chosen]], dtype=np.float64)


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is ten times as fast, if PyYAML has it


def from_files(pods_file: str, nodes_file: str, metrics_file: str | None) -> Recording:
    """Read the output files of `kubectl get -o json` or `-o yaml`. Raises BadRecording."""
    return Recording(
        _objects(pods_file, "Pod"),
        _objects(nodes_file, "Node"),
        None if metrics_file is None else _objects(metrics_file, "NodeMetric"),
    )


async def from_cluster(api: session.Session) -> Recording:
    """Read pods, nodes and NodeMetrics. Raises ApiServerError."""
    pods, nodes, metrics = [
        (await objects.list_all(api, resource)).items
        for resource in (resources.PODS, resources.NODES, resources.NODE_METRICS)
    ]
    return Recording(pods, nodes, metrics)


def _objects(file: str, kind: str) -> list[Mapping[str, Any]]:
    try:
        text = Path(file).read_text(encoding="utf-8")
        is_json = text.lstrip().startswith("{")
        documents = [json.loads(text)] if is_json else list(yaml.load_all(text, Loader=_LOADER))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise BadRecording(f"{file}: {error}") from error
    items: list[Any] = []
    for document in documents:
        is_list = isinstance(document, dict) and isinstance(document.get("items"), list)
        items += document["items"] if is_list else [] if document is None else [document]
    for item in items:
        if not isinstance(item, dict) or item.get("kind", kind) != kind:
            kinds = item.get("kind") if isinstance(item, dict) else type(item).__name__
            raise BadRecording(f"{file} holds {kinds}, want {kind} objects as `kubectl get -o json` prints them")
    return items

"""Read the objects of a cluster from kubectl's output files or from the apiserver, and usage over time from a CSV file.

    pod,seconds,cpu,memory
    default/web-1,0,250m,1Gi
    default/web-1,60,400m,1Gi

`seconds` are counted from the pod's start. A line applies until the next line of its pod; the last line applies to the
end, and the first also before its time. `cpu` and `memory` are Kubernetes quantities.
"""

from __future__ import annotations

import bisect
import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from api_types import names
from api_types.kubernetes import quantities
from apiserver_client import objects, resources, session
from scheduler_plugin.simulation.recorded_cluster import BadRecording, Recording
from scheduler_plugin.state.node_columns import Floats

_MOST_SECONDS: Final = 366 * 86400
COLUMNS: Final = ("pod", "seconds", "cpu", "memory")


class BadUsage(Exception):
    """The file cannot be read; the message names the line."""


def usage_series(text: str, step_seconds: float) -> Mapping[str, Floats]:
    """Parse the file into arrays of shape (2, steps), CPU milli-cores and memory bytes, by namespace/name.

    Raises BadUsage.
    """
    reader = csv.DictReader(text.splitlines())
    try:
        rows = list(reader)
    except csv.Error as error:
        raise BadUsage(f"line {reader.line_num + 1} cannot be read: {error}") from error
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise BadUsage(f"line 1 is {','.join(reader.fieldnames or ())!r}, want {','.join(COLUMNS)}")
    points: dict[str, list[tuple[float, int, int]]] = {}
    for number, row in enumerate(rows, start=2):
        try:
            seconds = float(row["seconds"])
            amounts = (quantities.cpu_millis(row["cpu"]), quantities.resource_units(names.MEMORY, row["memory"]))
        except (TypeError, ValueError, quantities.InvalidQuantity) as error:
            raise BadUsage(f"line {number} cannot be read: {error}") from error
        if not 0 <= seconds <= _MOST_SECONDS or min(amounts) < 0:
            raise BadUsage(
                f"line {number} is {','.join(map(str, row.values()))!r}, want numbers of 0 or more, up to a year"
            )
        points.setdefault(row["pod"], []).append((seconds, *amounts))
    return {pod: _on_grid(sorted(pod_points), step_seconds) for pod, pod_points in points.items()}


def _on_grid(points: list[tuple[float, int, int]], step_seconds: float) -> Floats:
    moments = [point[0] for point in points]
    steps = int(moments[-1] // step_seconds) + 1 + (moments[-1] % step_seconds > 0)
    chosen = [points[max(bisect.bisect_right(moments, step * step_seconds) - 1, 0)] for step in range(steps)]
    result: Floats = np.array([[point[1] for point in chosen], [point[2] for point in chosen]], dtype=np.float64)
    return result


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
    items = [item for document in documents if document is not None for item in _items(document)]
    for item in items:
        if not isinstance(item, dict) or item.get("kind", kind) != kind:
            kinds = item.get("kind") if isinstance(item, dict) else type(item).__name__
            raise BadRecording(f"{file} holds {kinds}, want {kind} objects as `kubectl get -o json` prints them")
    return items


def _items(document: Any) -> Iterator[Any]:
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        yield from document["items"]
    else:
        yield document

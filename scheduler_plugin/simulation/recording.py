"""Read the objects of a cluster from kubectl's output files or from the apiserver."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from apiserver_client import objects, resources, session
from scheduler_plugin.simulation.recorded_cluster import BadRecording, Recording

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

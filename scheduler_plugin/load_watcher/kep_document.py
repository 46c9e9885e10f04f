"""The document as KEP-61 draws it: nodes directly under `data`, the statistic in `rollup`, types in lower case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import Data, Metric, MetricType, NodeMetrics, Snapshot, Window

_TYPES: Final = {kind.value.lower(): kind.value for kind in MetricType}


def encode(snapshot: Snapshot) -> bytes:
    """The KEP's document. Raises ValueError for a value that is no number."""
    records.require_numbers(snapshot)
    return msgspec.json.encode(
        {
            "timestamp": snapshot.timestamp,
            "window": snapshot.window,
            "source": snapshot.source,
            "data": {
                name: {
                    "metrics": [
                        {
                            "name": metric.name,
                            "type": metric.type.lower(),
                            "rollup": metric.operator,
                            "value": metric.value,
                        }
                        for metric in node.metrics
                    ],
                    "tags": node.tags,
                    "metadata": node.metadata,
                }
                for name, node in snapshot.data.nodes.items()
            },
        }
    )


def decode(body: bytes) -> Snapshot:
    """Read the KEP's document. Raises msgspec.DecodeError where a value has another type than it must.

    Only what has metrics is a node: the KEP's own example has tags and metadata of a node stand beside it.
    """
    document = msgspec.json.decode(body, type=_Document)
    nodes = {
        name: _node(node) for name, node in document.data.items() if isinstance(node, Mapping) and "metrics" in node
    }
    return Snapshot(document.timestamp, document.window, document.source, Data(nodes))


class _Document(msgspec.Struct):
    timestamp: int = 0
    window: Window = Window()
    source: str = ""
    data: dict[str, Any] = {}


def _node(wire: Mapping[str, Any]) -> NodeMetrics:
    node = msgspec.convert(wire, NodeMetrics)
    metrics = [
        Metric(name=metric.name, type=_TYPES.get(metric.type, metric.type), operator=metric.rollup, value=metric.value)
        for metric in node.metrics
    ]
    return msgspec.structs.replace(node, metrics=metrics)

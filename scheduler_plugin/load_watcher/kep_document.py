"""Document of KEP-61: nodes directly under `data`, the statistic in `rollup`, types in lower case."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import Snapshot


def encode(snapshot: Snapshot) -> bytes:
    """Encode a snapshot as the KEP's document. Raises ValueError for NaN and infinite values."""
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
                if node.metrics
            },
        }
    )


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


_TEXT: Final = {"type": "string"}
_SECONDS: Final = {"type": "integer"}
_METRIC: Final = _object({"name": _TEXT, "type": _TEXT, "rollup": _TEXT, "value": {"type": "number"}})
_METADATA: Final = _object({"dataCenter": _TEXT, "pool": _TEXT}, "dataCenter", "pool")
_NODE: Final = _object(
    {
        "metrics": {"type": "array", "items": _METRIC},
        "tags": {"type": "object", "additionalProperties": _TEXT},
        "metadata": _METADATA,
    },
    "tags",
    "metadata",
)
SCHEMA: Final[dict[str, Any]] = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "title": "Load watcher document of KEP-61",
    "description": "The schema of the KEP, for nodes of any name, any number of metrics and values with decimals.",
    **_object(
        {
            "timestamp": _SECONDS,
            "window": _object({"duration": _TEXT, "start": _SECONDS, "end": _SECONDS}),
            "source": _TEXT,
            "data": {"type": "object", "additionalProperties": _NODE},
        }
    ),
}
"""JSON Schema, draft 4. The KEP's own allows names of digits alone, checks two metrics, and wants whole percents."""
SCHEMA_TEXT: Final = msgspec.json.format(msgspec.json.encode(SCHEMA), indent=2)
"""The schema as served."""

"""Document of KEP-61: nodes directly under `data`, the statistic in `rollup`, types in lower case."""

from __future__ import annotations

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

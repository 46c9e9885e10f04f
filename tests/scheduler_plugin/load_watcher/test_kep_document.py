from __future__ import annotations

import json
import math

import pytest

from scheduler_plugin.load_watcher import kep_document
from scheduler_plugin.load_watcher.records import Data, Metadata, Metric, NodeMetrics, Snapshot, Window

SNAPSHOT = Snapshot(
    1556987522,
    Window("15m", 1556984522, 1556985422),
    "InfluxDB",
    Data(
        {
            "node-1": NodeMetrics(
                [Metric(name="used", type="CPU", operator="AVG", value=20.0)],
                {"rack": "7"},
                Metadata("data-center-1", "critical-apps"),
            )
        }
    ),
)


def test_encodes_the_document_of_the_kep() -> None:
    assert json.loads(kep_document.encode(SNAPSHOT)) == {
        "timestamp": 1556987522,
        "window": {"duration": "15m", "start": 1556984522, "end": 1556985422},
        "source": "InfluxDB",
        "data": {
            "node-1": {
                "metrics": [{"name": "used", "type": "cpu", "rollup": "AVG", "value": 20}],
                "tags": {"rack": "7"},
                "metadata": {"dataCenter": "data-center-1", "pool": "critical-apps"},
            }
        },
    }


def test_encode_rejects_nan() -> None:
    snapshot = Snapshot(data=Data({"node-1": NodeMetrics([Metric(type="CPU", operator="AVG", value=math.nan)])}))
    with pytest.raises(ValueError, match="node node-1: CPU AVG is nan, want a number"):
        kep_document.encode(snapshot)

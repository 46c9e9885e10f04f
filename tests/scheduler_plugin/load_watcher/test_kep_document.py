from __future__ import annotations

import json
import math

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.load_watcher import rest
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
    assert json.loads(rest.encode_kep(SNAPSHOT)) == {
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
        rest.encode_kep(snapshot)


METRICS = st.builds(
    Metric,
    name=st.text(max_size=9),
    type=st.sampled_from(["CPU", "Memory", "Bandwidth", "future"]),
    operator=st.sampled_from(["AVG", "STD", "Latest", ""]),
    value=st.floats(0.0, 1e15, allow_nan=False),
)
NODES = st.builds(
    NodeMetrics,
    metrics=st.lists(METRICS, max_size=4),
    tags=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    metadata=st.builds(Metadata, data_center=st.text(max_size=5), pool=st.text(max_size=5)),
)


@given(st.dictionaries(st.text(max_size=9) | st.just("1234"), NODES, max_size=3))
def test_every_document_is_valid_by_the_served_schema(nodes: dict[str, NodeMetrics]) -> None:
    document = json.loads(rest.encode_kep(Snapshot(1, Window("15m", 0, 900), "InfluxDB", Data(nodes))))
    schema = json.loads(rest.KEP_SCHEMA_TEXT)
    jsonschema.Draft4Validator.check_schema(schema)
    jsonschema.Draft4Validator(schema).validate(document)


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("timestamp",), "now"),
        (("window", "end"), 1.5),
        (("source",), None),
        (("data", "node-1", "metrics", 0, "value"), "20"),
        (("data", "node-1", "metrics", 0, "rollup"), 1),
        (("data", "node-1", "metadata", "pool"), 1),
        (("data", "node-1", "tags", "rack"), 7),
    ],
)
def test_the_schema_rejects_a_value_of_a_wrong_type(path: tuple[str | int, ...], wrong: object) -> None:
    document = json.loads(rest.encode_kep(SNAPSHOT))
    *parents, last = path
    parent = document
    for key in parents:
        parent = parent[key]
    parent[last] = wrong
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(rest.KEP_SCHEMA).validate(document)


@pytest.mark.parametrize("key", ["timestamp", "window", "source", "data"])
def test_the_schema_requires_the_keys_of_the_kep(key: str) -> None:
    document = json.loads(rest.encode_kep(SNAPSHOT))
    del document[key]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(rest.KEP_SCHEMA).validate(document)

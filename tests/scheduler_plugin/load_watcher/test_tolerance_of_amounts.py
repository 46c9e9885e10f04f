"""Amounts of several providers: they disagree where they differ by more than a tenth of the largest."""

import json

import pytest

from scheduler_plugin.load_watcher import corroboration, records
from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot


def node(*values, kind="Energy"):
    return NodeMetrics([Metric(type=kind, operator="AVG", name=str(each), value=each) for each in values])


@pytest.mark.parametrize(
    ("first", "second", "disagree"), [(100, 111, 0), (111, 100, 0), (100, 112, 1), (-100, -112, 1)]
)
def test_amounts_disagree_beyond_a_tenth_of_the_largest(first, second, disagree):
    both = {
        name: {"n": NodeMetrics([Metric(type="Energy", operator="AVG", value=value)])}
        for name, value in {"a": first, "b": second}.items()
    }
    assert len(corroboration.corroborate(both).disagreements) == disagree


def test_one_tiny_value_beside_others_is_encoded_as_0():
    text = records.encode(Snapshot(data=Data({"n": node(12.5, 1e-7, kind="CPU"), "other": node(3.0)})))
    metrics = json.loads(text)["data"]["NodeMetricsMap"]["n"]["metrics"]
    assert [each["value"] for each in metrics] == [12.5, 0]
    assert b"e-" not in text.replace(b'"1e-07"', b"")

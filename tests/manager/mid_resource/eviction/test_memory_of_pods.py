"""The usage of pods in a report, of which some entries cannot be used."""

import json

import msgspec
import pytest

from api_types.kubernetes import pods
from manager.mid_resource.eviction import pod_view, report


def entry(name, **used):
    return {"namespace": "a", "name": name, "podUsage": {"resources": used}}


@pytest.mark.parametrize(
    "unusable",
    [
        None, {"namespace": "a", "name": "x"}, entry("x", cpu="1"),
        entry("x", memory="much"), entry("x", memory="-1"), entry("x", memory="10E"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_used_leaves_out_no_other_one(unusable):
    entries = [entry("first", memory="2"), unusable, entry("last", memory="1Ki")]
    read = msgspec.json.decode(json.dumps({"status": {"podsMetric": entries}}), type=report.FullReport)
    assert report.memory_of_pods(read) == {"a/first": 2, "a/last": 1024}


def test_a_pod_without_a_reported_usage_uses_nothing():
    pod = pod_view.Pod(
        metadata=pod_view.Metadata(name="p", namespace="a", uid="u"),
        spec=pods.PodSpec(node_name="n", priority=7000),
        status=pods.PodStatus(phase="Running", start_time="2026-11-21T12:00:00Z"),
    )
    (found,) = pod_view.node_pods([pod], "n", {"b/p": 5}, ()).staying
    assert (found.memory_used, found.memory_over) == (0, 0)
    (found,) = pod_view.node_pods([pod], "n", {"a/p": 5}, ()).staying
    assert (found.memory_used, found.memory_over) == (5, 5)

"""The usage of pods in a report, of which some entries cannot be used."""

import json

import msgspec
import pytest

from manager.mid_resource.eviction import report


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

import datetime as dt
import json

import pytest

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric import mid_resource, mid_status
from api_types.node_metric.mid_resource import MidInputs
from manager.mid_resource import status_annotation
from manager.mid_resource.reasons import Reason

NOW = dt.datetime(2026, 11, 21, 12, 0, 0, 999_999, tzinfo=dt.UTC)


def node(text):
    annotations = {} if text is None else {names.ANNOTATION_MID_STATUS: text}
    return pods.Node(metadata=pods.ObjectMeta(annotations=annotations))


def test_the_terms_add_up_to_the_published_value():
    inputs = MidInputs(
        allocatable=10_000, capacity=12_000, allocated_prod=8_000, allocated_mid=100, peak_prod=3_000,
        unused=12_000, threshold_percent=40, unallocated_percent=50,
    )  # fmt: skip
    terms = mid_resource.calculate(inputs)
    wire = json.loads(
        mid_status.encode(
            status_annotation.make(
                Reason.CALCULATED, NOW, sample=NOW, requests_from="report",
                lines={names.MID_CPU: status_annotation.line(inputs, terms, terms.value)},
            )
        )
    )  # fmt: skip
    assert (wire["time"], wire["sample"], wire["reason"]) == (
        "2026-11-21T12:00:00Z",
        "2026-11-21T12:00:00Z",
        "Calculated",
    )
    line = wire["resources"][names.MID_CPU]
    offered = min(line["reclaimable"], line["cap"]) + line["unallocatedShare"]
    assert line["published"] == max(min(offered, line["unused"]), line["floor"])
    assert line["published"] == 5_000
    assert "riseLimit" not in line


def test_terms_that_static_mode_does_not_use_are_absent():
    inputs = MidInputs(allocatable=10, capacity=12, allocated_prod=8, allocated_mid=0, static_percent=50, floor=False)
    line = status_annotation.line(inputs, mid_resource.calculate(inputs), 6)
    assert (line.source, line.reclaimable, line.capacity) == ("static", 6, 12)
    assert (line.peak_prod, line.unallocated_percent, line.floor) == (None, None, None)


def test_decodes_what_was_encoded():
    made = status_annotation.make(Reason.SAMPLE_TOO_OLD, NOW, detail="x")
    assert mid_status.decode(mid_status.text_of(node(mid_status.encode(made)))) == made


OF_A_HAND = '{"time": "", "reason": "", "resources": {"kubernetes.io/mid-cpu": {"published": -5}}}'
DEEP = '{"x": ' + "[" * 100_000


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"time": 1, "reason": "x"}', OF_A_HAND, DEEP])
def test_an_invalid_annotation_is_none(text):
    assert mid_status.decode(mid_status.text_of(node(text))) is None


def test_what_is_as_usual_is_not_written():
    made = status_annotation.make(Reason.CALCULATED, NOW, sample=NOW, requests_from="report", lines={})
    wire = json.loads(mid_status.encode(made))
    assert wire.keys() == {"time", "reason", "status", "text", "since", "sample", "requestsFrom"}
    assert mid_status.decode(json.dumps(wire)) == made

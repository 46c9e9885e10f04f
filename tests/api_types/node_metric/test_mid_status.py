"""The status annotation of a node: what is read of it, and which report it names as the last usable one."""

import msgspec
import pytest

from api_types.kubernetes import pods
from api_types.node_metric import mid_report, mid_resource, mid_status

NOON, EARLIER = "2026-10-21T12:00:00Z", "2026-10-21T11:00:00Z"


def status(**fields):
    return mid_status.MidStatus(time=NOON, reason="Any", **fields)


def node(annotations):
    return msgspec.convert({"metadata": {"name": "n1", "annotations": annotations}}, type=pods.Node)


def test_an_encoded_status_is_read_and_its_unset_fields_are_absent():
    encoded = msgspec.json.encode(status(resources={"cpu": mid_resource.Terms(published=5)})).decode()
    assert msgspec.json.decode(encoded) == {"time": NOON, "reason": "Any", "resources": {"cpu": {"published": 5}}}
    assert mid_status.decode(encoded) == status(resources={"cpu": mid_resource.Terms(published=5)})


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{}",
        '{"time": "a", "reason": "b", "resources": {"cpu": {"published": -1}}}',
        '{"time": "a", "reason": "b", "resources": {"cpu": {"published": 9223372036854775808}}}',
        "[" * 100_000,
        '{"time": "a", "reason": "b"}'.ljust(pods.MOST_ANNOTATION_BYTES + 1),
    ],
    ids=["absent", "empty", "no reason", "negative", "more than 64 bits", "deep", "long"],
)
def test_a_text_that_the_manager_does_not_write_is_no_status(text):
    assert mid_status.decode(text) is None


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"sample": NOON}, NOON),
        ({"sample": NOON, "last_usable": EARLIER}, EARLIER),
        ({"last_usable": EARLIER}, EARLIER),
        ({}, ""),
    ],
)
def test_the_last_usable_report_is_the_kept_one_or_that_of_the_terms(fields, wanted):
    assert mid_status.last_usable(status(**fields)) == wanted
    assert mid_status.last_usable(None) is None


@pytest.mark.parametrize(
    ("peak", "reclaimable", "has_prediction"),
    [(None, None, False), ({"cpu": 1}, None, True), (None, {"cpu": 1}, True), ({"cpu": 1}, {"cpu": 1}, True)],
)
def test_a_peak_or_a_reclaimable_amount_is_a_prediction(peak, reclaimable, has_prediction):
    report = mid_report.UsableReport(peak, reclaimable, requests=None, used=None)
    assert report.has_prediction() is has_prediction

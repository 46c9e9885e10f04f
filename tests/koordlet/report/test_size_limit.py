"""The size limit of a report follows a rule, and the report notes the pods left out."""

import datetime as dt
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.node_metric import types as node_metric
from koordlet.report import size_limit

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LIMIT = 256 * 1024
NOTE = 200
"""Room that is kept for the note about pods that are left out."""
CLASSES = ("koord-prod", "koord-mid", "koord-batch", "koord-free")
# The order in which pods are left out.
FIRST_LEFT_OUT = {"koord-free": 0, "koord-batch": 1, "koord-mid": 2, "koord-prod": 3}


def pod(name, priority="koord-prod", memory="134217728", namespace="default"):
    usage = node_metric.ResourceMap(resources={"cpu": "1450m", "memory": memory})
    return node_metric.PodMetricInfo(name=name, namespace=namespace, pod_usage=usage, priority=priority, qos="LS")


def report(pods, rest_bytes=0):
    """Return a report with these pods; the rest of it, which is several KiB in a cluster, is in a condition."""
    ready = node_metric.NodeMetricCondition(
        type="Ready", status="True", message="all is well", last_transition_time=NOW
    )
    rest = node_metric.NodeMetricCondition(
        type="Rest", status="True", message="r" * rest_bytes, last_transition_time=NOW
    )
    return node_metric.NodeMetricStatus(update_time=NOW, pods_metric=pods, conditions=[ready, rest])


def wire_bytes(status):
    return len(json.dumps(status.to_wire(), separators=(",", ":"), ensure_ascii=False).encode())


def wire_bytes_of(entry):
    return len(json.dumps(entry.to_wire(), separators=(",", ":"), ensure_ascii=False).encode())


def message(status):
    return status.conditions[0].message


def test_500_pods_fit_whatever_they_are_called():
    longest = [pod("n" * 250 + f"{number:03}", namespace="s" * 63, memory="9" * 15) for number in range(500)]
    whole = report(longest)
    assert size_limit.fit(whole) is whole
    assert wire_bytes(whole) < LIMIT


@given(
    pods=st.lists(
        st.tuples(st.sampled_from(CLASSES), st.integers(0, 5), st.integers(1, 253)), min_size=300, max_size=1200
    ),
    rest_bytes=st.sampled_from([0, 8 * 1024, 64 * 1024]),
)
@settings(max_examples=25)
def test_a_report_of_any_pods_is_below_the_limit_and_leaves_out_the_lowest_and_smallest(pods, rest_bytes):
    entries = [
        pod(f"{number}-".ljust(length, "n"), priority, str(memory << 20))
        for number, (priority, memory, length) in enumerate(pods)
    ]
    fitted = size_limit.fit(report(entries, rest_bytes))
    assert wire_bytes(fitted) <= LIMIT
    named = {each.name for each in fitted.pods_metric}
    assert [each.name for each in fitted.pods_metric] == [each.name for each in entries if each.name in named]

    def worth(each):
        return FIRST_LEFT_OUT[each.priority], int(each.pod_usage.resources["memory"])

    left_out = [worth(each) for each in entries if each.name not in named]
    if left_out:
        assert max(left_out) <= min(worth(each) for each in fitted.pods_metric)
        assert f"{len(left_out)} of {len(entries)} measured pods are left out" in message(fitted)
    else:
        assert message(fitted) == "all is well"


@pytest.mark.parametrize("rest_bytes", [0, 8 * 1024, 64 * 1024])
def test_no_pod_is_left_out_for_which_there_is_room(rest_bytes):
    entries = [pod(f"{number:04}".ljust(253, "n")) for number in range(2000)]
    fitted = size_limit.fit(report(entries, rest_bytes))
    assert 0 <= LIMIT - wire_bytes(fitted) < 2 * 470 + NOTE  # less than the next entry, and the room for the note


def test_the_last_pod_may_fill_the_room_to_the_byte():
    entries = [pod(f"{number:04}") for number in range(1000)]
    comma = len(",")
    of_pods = sum(wire_bytes_of(each) + comma for each in entries)
    full = LIMIT - NOTE - wire_bytes(report(None)) - of_pods
    assert full > 0
    whole = report(entries, full)
    assert size_limit.fit(whole) is whole
    assert len(size_limit.fit(report(entries, full + 1)).pods_metric) == len(entries) - 1


def test_the_same_pods_give_the_same_report_in_the_order_they_came():
    entries = [pod(f"{number:04}".ljust(253, "n")) for number in range(900)]
    fitted = size_limit.fit(report(entries))
    assert size_limit.fit(report(entries)) == fitted
    assert [each.name for each in fitted.pods_metric] == [each.name for each in entries[: len(fitted.pods_metric)]]

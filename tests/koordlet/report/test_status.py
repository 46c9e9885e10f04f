import datetime as dt
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.kubernetes import priority_and_qos as pq
from api_types.node_metric import types as node_metric
from koordlet.report import status
from koordlet.report.status import ReportedUsage
from koordlet.samples import UsageSample
from tests.koordlet.one_node import bound_pod

NODE_USAGE = UsageSample(1.4509, 1000.9)
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def pod(name, priority_class=pq.PriorityClass.PROD, **overrides):
    return bound_pod(name, priority_class, **{"namespace": "ns", "cpu_request_millis": 500, **overrides})


def report(node=NODE_USAGE, node_windows=(), pods=(), numa=None, **overrides):
    values = {
        "sampled_at": NOW,
        "observed_generation": 2,
        "reported": ReportedUsage(node, None, node_windows, (), pods, numa or {}),
        "bound": [],
        "predicted": None,
        "conditions": [],
    }
    return status.build(**{**values, **overrides}).to_wire()


def test_usage_is_cut_to_whole_units_and_no_data_is_an_empty_map():
    assert report()["nodeMetric"] == {
        "nodeUsage": {"resources": {"cpu": "1450m", "memory": "1000"}},
        "systemUsage": {},
    }


def test_without_a_prediction_both_prod_metrics_are_absent():
    assert not {"prodPeakMetric", "prodReclaimableMetric", "prediction"} & report().keys()


def test_pods_are_sorted_whatever_the_order_they_come_in():
    pods = [
        (pod("b"), UsageSample(0.1, 1)),
        (pod("a", namespace="z"), UsageSample(0.2, 2)),
        (pod("a"), UsageSample(0.3, 3)),
    ]
    wanted = [("ns", "a"), ("ns", "b"), ("z", "a")]
    for order in (pods, pods[::-1]):
        assert [(each["namespace"], each["name"]) for each in report(pods=order)["podsMetric"]] == wanted


def test_requests_are_summed_by_tier_and_ended_pods_request_nothing():
    mid = pod("m", pq.PriorityClass.MID, cpu_request_millis=0, mid_cpu_request_millis=2000, mid_memory_request_bytes=5)
    bound = [
        pod("a"),
        pod("b"),
        mid,
        pod("done", is_terminated=True, is_admitted=False),
        pod("x", pq.PriorityClass.BATCH),
    ]
    assert report(bound=bound)["allocated"] == {
        "prod": {"cpu": "1", "memory": str(2 << 30)},
        "mid": {"kubernetes.io/mid-cpu": "2000", "kubernetes.io/mid-memory": "5"},
        "belowProd": {"cpu": "500m", "memory": str(2 << 30)},
    }


def test_requests_are_absent_while_the_pods_are_unknown():
    assert "allocated" not in report(bound=None)


def test_windows_keep_their_keys_where_there_is_too_little_data():
    windows = [(600, {"avg": None}), (300, {"avg": UsageSample(2, 7), "std": UsageSample(0.5, 0)})]
    assert report(node_windows=windows)["nodeMetric"]["aggregatedNodeUsages"] == [
        {
            "duration": "5m0s",
            "usage": {
                "avg": {"resources": {"cpu": "2", "memory": "7"}},
                "std": {"resources": {"cpu": "500m", "memory": "0"}},
            },
        },
        {"duration": "10m0s", "usage": {"avg": {}}},
    ]


def test_predicted_peaks_are_rounded_up():
    assert status.peak_resources(1.4501, 10.2) == {"cpu": "1451m", "memory": "11"}


LIMIT = 256 * 1024
NOTE = 200
"""Room that is kept for the note about pods that are left out."""
CLASSES = ("koord-prod", "koord-mid", "koord-batch", "koord-free")
# The order in which pods are left out.
FIRST_LEFT_OUT = {"koord-free": 0, "koord-batch": 1, "koord-mid": 2, "koord-prod": 3}


def measured_pod(name, priority="koord-prod", memory="134217728", namespace="default"):
    usage = node_metric.ResourceMap(resources={"cpu": "1450m", "memory": memory})
    return node_metric.PodMetricInfo(name=name, namespace=namespace, pod_usage=usage, priority=priority, qos="LS")


def report_with(pods, rest_bytes=0):
    """Return a report_with with these pods; the rest of it, which is several KiB in a cluster, is in a condition."""
    ready = node_metric.NodeMetricCondition(
        type="Ready", status="True", message="all is well", last_transition_time=NOW
    )
    rest = node_metric.NodeMetricCondition(
        type="Rest", status="True", message="r" * rest_bytes, last_transition_time=NOW
    )
    return node_metric.NodeMetricStatus(update_time=NOW, pods_metric=pods, conditions=[ready, rest])


def wire_bytes(status):
    return len(json.dumps(status.to_wire(), separators=(",", ":"), ensure_ascii=False).encode())


def message(status):
    return status.conditions[0].message


def test_500_pods_fit_whatever_they_are_called():
    longest = [measured_pod("n" * 250 + f"{number:03}", namespace="s" * 63, memory="9" * 15) for number in range(500)]
    whole = report_with(longest)
    assert status.fit(whole) is whole
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
        measured_pod(f"{number}-".ljust(length, "n"), priority, str(memory << 20))
        for number, (priority, memory, length) in enumerate(pods)
    ]
    fitted = status.fit(report_with(entries, rest_bytes))
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
    entries = [measured_pod(f"{number:04}".ljust(253, "n")) for number in range(2000)]
    fitted = status.fit(report_with(entries, rest_bytes))
    assert 0 <= LIMIT - wire_bytes(fitted) < 2 * 470 + NOTE  # less than the next entry, and the room for the note

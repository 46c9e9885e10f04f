import datetime as dt

from api_types.kubernetes import priority_and_qos as pq
from koordlet.cluster.pods import PodOnNode
from koordlet.report import status
from koordlet.report.status import ReportedUsage
from koordlet.samples import UsageSample

NODE_USAGE = UsageSample(1.4509, 1000.9)
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def pod(name, priority_class=pq.PriorityClass.PROD, **overrides):
    values = {
        "uid": name,
        "namespace": "ns",
        "name": name,
        "priority_class": priority_class,
        "qos_class": pq.QoSClass.LS,
        "cpu_request_millis": 500,
        "memory_request_bytes": 1 << 30,
        "mid_cpu_request_millis": 0,
        "mid_memory_request_bytes": 0,
        "is_terminated": False,
        "is_admitted": True,
        "cpu_limit_millis": None,
        "container_ids": frozenset(),
    }
    return PodOnNode(**{**values, **overrides})


def report(node=NODE_USAGE, node_windows=(), pods=(), numa=None, **overrides):
    values = {
        "sampled_at": NOW,
        "observed_generation": 2,
        "usage": ReportedUsage(node, None, node_windows, (), pods, numa or {}),
        "bound": [],
        "predicted": None,
        "conditions": [],
    }
    return status.build(status.Report(**{**values, **overrides})).to_wire()


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

"""MidGuard; the inputs are simple enough to calculate each limit by hand."""

import json

import pytest

from scheduler_plugin.plugins import mid_guard
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

MID = {"kubernetes.io/mid-cpu": "4k", "kubernetes.io/mid-memory": "8Gi"}
POLICY = {"enable": True}


def resources(cpu, memory):
    return {"cpu": cpu, "memory": memory}


def report(peak=("6", "10Gi"), *, prod=("10", "20Gi"), mid=("0", "0"), policy=POLICY, **status):
    """Return a report: Prod requests 10 cores and 20 Gi, and its peak leaves 4 cores and 10 Gi."""
    full = {
        "allocated": {"prod": resources(*prod), "mid": dict(zip(MID, mid, strict=True))},
        "prodPeakMetric": {"resource": {"resources": resources(*peak)}},
        **status,
    }
    return factories.metric(
        "n1", usage={"cpu": "1", "memory": "1Gi"}, status=full, spec={"midColocationPolicy": policy}
    )


def rejects(metric, *, requests=MID, published=None, assigned=(), priority=7500, annotations=None):
    parts = factories.parts()
    published = published or {"kubernetes.io/mid-cpu": "100k", "kubernetes.io/mid-memory": "100Gi"}
    parts.cluster.node_changed(factories.node("n1", annotations=annotations, **published))
    if metric is not None:
        parts.cluster.metric_changed(metric)
    for index, own in enumerate(assigned):
        parts.cluster.assume_pod(factories.pod(f"held-{index}", priority=7500, requests=own), "n1", NOW)
    pod = factories.pod_document(priority=priority, requests=requests)
    response = json.loads(parts.extender.filter(factories.request(pod, ["n1"]), NOW))
    return (response.get("FailedAndUnresolvableNodes") or {}).get("n1")


def test_a_mid_pod_that_fits_the_prediction_passes():
    assert rejects(report()) is None


@pytest.mark.parametrize("peak", [("6001m", "10Gi"), ("6", "12884901889")])
def test_a_mid_pod_beyond_the_newest_prediction_is_rejected_though_the_node_publishes_more(peak):
    assert rejects(report(peak)) == mid_guard.REASON


def test_the_published_resources_are_left_to_kube_scheduler_whose_watch_may_be_ahead():
    assert rejects(report(), published={"kubernetes.io/mid-cpu": "0", "kubernetes.io/mid-memory": "0"}) is None


def test_resources_reserved_by_annotation_are_subtracted():
    reserved = {"node.koordinator.sh/reservation": json.dumps({"resources": {"cpu": "93"}})}
    assert rejects(report()) is None
    assert rejects(report(), annotations=reserved) == mid_guard.REASON


def test_mid_requests_of_assigned_pods_are_subtracted():
    one = {"kubernetes.io/mid-cpu": "2k", "kubernetes.io/mid-memory": "1Gi"}
    assert rejects(report(), requests=one, assigned=[one]) is None
    assert rejects(report(), requests=one, assigned=[one, one]) == mid_guard.REASON


def test_only_requested_resources_must_fit():
    assert rejects(report(("10", "10Gi")), requests={"kubernetes.io/mid-memory": "8Gi"}) is None


def test_pods_without_mid_requests_pass():
    assert rejects(report(("10", "20Gi")), requests={"cpu": "1"}, priority=9500) is None


def test_percentages_of_the_policy_count():
    assert rejects(report(policy={"enable": True, "midCPUThresholdPercent": 3})) == mid_guard.REASON
    assert rejects(report(policy={"enable": True, "midReclaimRatioPercent": 99})) == mid_guard.REASON


def test_bound_mid_pods_are_a_floor():
    assert rejects(report(("10", "20Gi"), mid=("4k", "8Gi"))) is None
    withdrawn = {"enable": True, "midFloor": "none"}
    assert rejects(report(("10", "20Gi"), mid=("4k", "8Gi"), policy=withdrawn)) == mid_guard.REASON


@pytest.mark.parametrize(
    "metric",
    [
        None,
        report(prodPeakMetric=None),
        report(allocated=None),
        report(policy=None),
        report(("10", "20Gi"), policy={"enable": False}),
        report(("-1", "20Gi")),
        report(("lots", "20Gi")),
        report(policy={"enable": "perhaps"}),
    ],
)
def test_accepts_a_node_without_usable_inputs(metric):
    assert rejects(metric, published=MID) is None
    assert rejects(metric, published={**MID, "kubernetes.io/mid-cpu": "3999"}) is None


def test_handles_an_absurd_report():
    assert rejects(report(mid=("1e300", "1e999"))) is None

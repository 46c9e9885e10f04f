"""MidGuard on a node whose annotations, reports and pods change."""

import json

import pytest

from api_types.node_metric import mid_eviction
from scheduler_plugin.plugins import mid_guard
from scheduler_plugin.state import pod_info
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

CPU, MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
MID = {CPU: "4k", MEMORY: "8Gi"}
STATUS = "koordinator.sh/mid-resource-status"


def status(text="True", closed=None, reason="Any", seconds=-600, calculated=None):
    lines = {mid: {"calculated": value} for mid, value in (calculated or {}).items()}
    document = {"time": factories.moment(seconds), "reason": reason, "status": text, "resources": lines}
    return {STATUS: json.dumps(document | ({"closed": closed} if closed else {}))}


def evicted(trigger="MidCPU"):
    record = {"time": factories.moment(0), "since": factories.moment(0), "trigger": trigger}
    return {"koordinator.sh/mid-eviction": json.dumps(record)}


class Node:
    """A node of 100 cores and 100 GiB."""

    def __init__(self, **annotations):
        self.parts = factories.parts({"onStale": "pass", "usageThresholds": {}})
        self.annotate(annotations)

    def annotate(self, annotations):
        published = {CPU: "100k", MEMORY: "100Gi"}
        self.parts.cluster.node_changed(factories.node("n1", annotations=annotations, **published))

    def report(self, cpu="6", memory="10Gi", policy=None, updated=0, **more):
        """Report Prod requests of 10 cores and 20 GiB, and their predicted peak."""
        reported = {
            "allocated": {"prod": {"cpu": "10", "memory": "20Gi"}, "mid": {CPU: "0", MEMORY: "0"}},
            "prodPeakMetric": {"resource": {"resources": {"cpu": cpu, "memory": memory}}},
            **more,
        }
        spec = {"midColocationPolicy": {"enable": True, **(policy or {})}}
        usage = {"cpu": "1", "memory": "1Gi"}
        self.parts.cluster.metric_changed(
            factories.metric("n1", usage=usage, updated=updated, status=reported, spec=spec)
        )

    def hold(self, name="held", **requests):
        pod = factories.pod(name, priority=7500, requests=requests)
        self.parts.cluster.assume_pod(pod, "n1", NOW)

    def refuses(self, requests=MID, priority=7500, now=NOW, name="new"):
        pod = factories.pod_document(name, priority=priority, requests=requests)
        answer = json.loads(self.parts.extender.filter(factories.request(pod, ["n1"]), now))
        return (answer.get("FailedAndUnresolvableNodes") or {}).get("n1")


def test_each_change_of_the_status_annotation_counts_at_once():
    node = Node()
    node.report()
    for _ in range(2):
        node.annotate(status("False"))
        assert node.refuses() == mid_guard.REASON
        node.annotate(status("True", closed="Frozen"))
        assert node.refuses() == mid_guard.REASON_FROZEN
        node.annotate(status("True"))
        assert node.refuses() is None
    node.annotate(status("False"))
    node.annotate({})
    assert node.refuses() is None


def test_each_report_counts_at_once():
    node = Node()
    node.report()
    assert node.refuses() is None
    node.report(cpu="6001m")
    assert node.refuses() == mid_guard.REASON
    node.report()
    assert node.refuses() is None


def test_a_status_annotation_that_stays_counts_with_the_next_report():
    node = Node(**status("False"))
    node.annotate(status("False"))
    node.report()
    assert node.refuses() == mid_guard.REASON
    node.report(cpu="5")
    assert node.refuses() == mid_guard.REASON


def test_too_much_of_one_resource_refuses_no_pod_that_requests_the_other_one_only():
    node = Node()
    node.report()
    node.hold(**{CPU: "5k"})
    assert node.refuses({MEMORY: "8Gi"}) is None
    assert node.refuses({MEMORY: "8Gi", CPU: "1"}) == mid_guard.REASON
    assert node.refuses({}) is None


@pytest.mark.parametrize(("cpu", "reason"), [("4k", None), ("4001", mid_guard.REASON)])
def test_the_last_millicore_that_is_left_is_given(cpu, reason):
    node = Node()
    node.report()
    assert node.refuses({CPU: cpu}) == reason


def test_pods_of_the_largest_amounts_leave_nothing_and_no_more_when_they_go():
    node = Node()
    node.report()
    for index in range(5):
        node.hold(f"greedy-{index}", **{CPU: str(2**62), MEMORY: str(2**62)})
    assert node.refuses({CPU: "1"}) is not None
    for index in range(5):
        node.parts.cluster.pod_deleted("default", f"greedy-{index}")
    assert node.refuses() is None


@pytest.mark.parametrize(("written_at", "reason"), [(-1, None), (0, mid_guard.REASON)])
def test_only_a_sample_after_the_withdrawal_ends_it(written_at, reason):
    node = Node(**status("False", reason="SampleTooOld", seconds=written_at))
    node.report()
    assert node.refuses() == reason


def test_a_report_without_a_time_leaves_nothing_where_there_is_a_policy():
    node = Node()
    node.report(updated=None)
    assert node.refuses() == mid_guard.REASON
    assert node.refuses({"cpu": "1"}) is None


def test_the_status_annotation_closes_a_node_before_the_annotation_of_an_eviction_does():
    node = Node(**status(closed="Leaving"), **evicted())
    assert node.refuses() == mid_guard.REASON_LEAVING
    node.annotate(status() | evicted())
    assert node.refuses() == mid_guard.REASON_CLOSED
    node.annotate(evicted(mid_eviction.UNDERUSED))
    assert node.refuses() == mid_guard.REASON_MID_ONLY


def test_too_little_is_named_before_what_closes_the_node():
    node = Node(**evicted())
    node.report(cpu="10", memory="20Gi")
    assert node.refuses() == mid_guard.REASON
    assert node.refuses({}) == mid_guard.REASON_CLOSED


def test_a_node_that_publishes_is_not_guarded_by_half_an_annotation():
    node = Node(**status(calculated={CPU: 1}))
    node.report(prodPeakMetric=None)
    assert node.refuses() is None
    node.annotate(status(calculated={MEMORY: 1}))
    assert node.refuses() is None
    node.annotate(status(calculated={CPU: 1, MEMORY: 1}))
    assert node.refuses() == mid_guard.REASON


def test_the_numbers_of_a_refusal_are_those_of_the_resource_that_is_too_little():
    node = Node()
    node.parts.vectors.mid_quotas.namespace_changed("default", '{"cpu": "20", "memory": "10Gi"}')
    node.hold(**{CPU: "16k", MEMORY: "9Gi"})
    holds = f"{mid_guard.REASON_QUOTA}: namespace default holds"
    assert (
        node.refuses({CPU: "4k", MEMORY: "2Gi"}, name="a") == f"{holds} 9 of 10 GiB of Mid memory, the pod requests 2"
    )
    assert node.refuses({CPU: "5k", MEMORY: "2Gi"}, name="b") == f"{holds} 16 of 20 cores of Mid, the pod requests 5"
    assert node.refuses({CPU: "4k", MEMORY: "1Gi"}, name="c") is None


@pytest.mark.parametrize(
    ("victims", "wanted", "candidates"),
    [
        ([], "1k", ["n1"]),
        ([], "1001", []),
        (["uid-small"], "2k", ["n1"]),
        (["uid-small"], "2001", []),
        (["uid-small", "uid-large"], "4k", ["n1"]),
        (["uid-small", "uid-large"], "4001", []),
    ],
)
def test_a_pod_may_preempt_where_its_victims_leave_enough(victims, wanted, candidates):
    node = Node()
    node.report()
    node.hold("small", **{CPU: "1k", MEMORY: "1"})
    node.hold("large", **{CPU: "2k", MEMORY: "1"})
    pod = factories.pod_document("preemptor", priority=7600, requests={CPU: wanted, MEMORY: "1"})
    body = {"Pod": pod, "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": uid} for uid in victims]}}}
    answer = json.loads(node.parts.extender.preempt(json.dumps(body).encode(), NOW))
    assert list(answer["NodeNameToMetaVictims"]) == candidates


def test_the_explanation_of_a_mid_pod_has_what_is_left_and_whether_the_node_is_closed():
    node = Node()
    node.report()
    node.hold(**{CPU: "5k", MEMORY: "1Gi"})
    parts, guard = node.parts, mid_guard.MidGuard()
    parts.cluster.node_changed(factories.node("n2", annotations=evicted()))
    guard.grow(8)
    for entry in parts.cluster.entries.values():
        guard.write(entry)
    rows = parts.vectors.find(["n1", "n2"])

    def explained(**requests):
        return guard.explain(pod_info.read(factories.pod(requests=requests), parts.estimator_args), rows).columns

    for requests in ({CPU: "1"}, {MEMORY: "1"}):
        found = explained(**requests)
        assert found["midLeft"][:, 0].tolist() == [-1_000, 9 << 30]
        assert found["midClosed"].tolist() == [False, True]
    assert explained(cpu="1") == {}


def test_a_namespace_above_its_quota_of_one_resource_may_have_more_of_the_other_one():
    node = Node()
    node.hold(**{CPU: "20k", MEMORY: "1Gi"})
    node.parts.vectors.mid_quotas.namespace_changed("default", '{"cpu": "10"}')
    assert node.refuses({MEMORY: "1Gi"}, name="a") is None
    assert node.refuses({CPU: "1"}, name="b") is not None

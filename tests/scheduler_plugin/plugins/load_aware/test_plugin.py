"""Worked examples of LoadAware's filter and score."""

import json

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW


def decide(pod, *, args=None, usage, peak=None, now=NOW, **node):
    parts = factories.parts(args)
    parts.cluster.node_changed(factories.node("n1", **{"cpu": "96", "memory": "512Gi", **node}))
    status = {"prediction": {"node": {"peak": peak}}} if peak else None
    parts.cluster.metric_changed(factories.metric("n1", usage=usage, status=status))
    response = json.loads(parts.extender.filter(factories.request(pod, ["n1"]), now))
    score = json.loads(parts.extender.prioritize(factories.request(pod, ["n1"]), now))[0]["Score"]
    return (response.get("FailedAndUnresolvableNodes") or {}).get("n1"), score


BEST_EFFORT = factories.pod_document(priority=None)


def test_a_hot_node_is_rejected_and_the_reason_names_the_resource():
    assert decide(BEST_EFFORT, usage={"cpu": "70", "memory": "256Gi"})[0] == "node(s) cpu usage exceed threshold"


def test_a_cached_result_expires_with_its_report():
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "1", "memory": "1Gi"}))
    body = factories.request(BEST_EFFORT, ["n1"])
    assert json.loads(parts.extender.filter(body, NOW))["NodeNames"] == ["n1"]
    assert json.loads(parts.extender.filter(body, NOW + 200))["NodeNames"] == []


def test_limits_in_an_annotation_that_is_too_long_are_not_read():
    own = {"scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 80}}'.ljust(2**15)}
    assert decide(BEST_EFFORT, usage={"cpu": "70", "memory": "1Gi"}, annotations=own)[0] is not None


def test_usage_is_compared_with_the_raw_allocatable():
    amplified = {"node.koordinator.sh/raw-allocatable": '{"cpu": 96}'}
    usage = {"cpu": "70", "memory": "1Gi"}
    assert decide(BEST_EFFORT, usage=usage, cpu="192")[0] is None
    assert decide(BEST_EFFORT, usage=usage, cpu="192", annotations=amplified)[0] == "node(s) cpu usage exceed threshold"


@pytest.mark.parametrize(("memory", "passes_as"), [("0", "unknown"), ("1", "idle")])
def test_a_node_that_uses_exactly_nothing_is_not_measured(memory, passes_as):
    reason, score = decide(BEST_EFFORT, usage={"cpu": "0", "memory": memory})
    assert (reason, score > 90) == (None, passes_as == "idle")


@pytest.mark.parametrize("owner", ["DaemonSet", "Node"])
def test_daemon_and_static_pods_pass_on_hot_and_stale_nodes(owner):
    pinned = factories.pod_document(priority=None, owner_kind=owner)
    usage = {"cpu": "95", "memory": "1Gi"}
    assert decide(pinned, usage=usage)[0] is None
    assert decide(pinned, usage=usage, now=NOW + 180)[0] is None
    assert decide(factories.pod_document(priority=None, owner_kind="ReplicaSet"), usage=usage)[0] is not None


HOT, COOL = {"cpu": "90", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}


CPU_REASON, STALE_REASON = "node(s) cpu usage exceed threshold", "node(s) nodeMetric expired"


@pytest.mark.parametrize(
    ("on_stale", "when_cool", "when_hot"),
    [("reject", STALE_REASON, STALE_REASON), ("pass", None, None), ("use", None, CPU_REASON)],
)
def test_a_stale_node_is_rejected_passed_or_checked_by_its_last_report_and_scores_zero(on_stale, when_cool, when_hot):
    for usage, reason in ((COOL, when_cool), (HOT, when_hot)):
        assert decide(BEST_EFFORT, args={"onStale": on_stale}, usage=usage, now=NOW + 180) == (reason, 0)


def test_soft_mode_rejects_nothing_and_orders_the_nodes_above_their_limits_by_their_excess():
    soft = {"mode": "soft"}
    used = [{"cpu": str(cores), "memory": "1Gi"} for cores in (1, 60, 66, 80, 95)]
    decided = [decide(BEST_EFFORT, args=soft, usage=usage) for usage in used]
    assert [reason for reason, _score in decided] == [None] * 5
    scores = [score for _reason, score in decided]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 5
    assert scores[1] >= 20 > scores[2]
    assert scores[-1] > 0
    assert decide(BEST_EFFORT, args=soft, usage=COOL, now=NOW + 180) == (None, 0)


def test_expired_nodes_pass_while_this_process_does_not_see_the_reports():
    parts, late = factories.parts(), NOW + 1000
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.metric_changed(factories.metric("n1", usage=COOL))

    def passing():
        return json.loads(parts.extender.filter(factories.request(BEST_EFFORT, ["n1"]), late))["NodeNames"]

    assert passing() == []
    assert "1 of 1 nodes expired" in parts.check_blindness(None, late)
    assert passing() == ["n1"]
    assert parts.check_blindness(None, NOW) == ""
    assert "silent for 91 s" in parts.check_blindness(91.0, NOW)


@pytest.mark.parametrize(
    "written",
    [{"owner_kind": "DaemonSet"}, {"owner_kind": "Node"}, {"labels": {"koordinator.sh/skip-load-aware": "true"}}],
)
@pytest.mark.parametrize(("namespaces", "passes"), [(None, True), (["kube-system", "default"], True), ([], False)])
def test_pods_exempt_themselves_in_the_namespaces_that_may(written, namespaces, passes):
    pod = factories.pod_document(priority=None, **written)
    reason, _score = decide(pod, args={"exemptNamespaces": namespaces}, usage={"cpu": "95", "memory": "1Gi"})
    assert (reason is None) is passes


def test_a_placeholder_of_a_namespace_that_may_not_exempt_itself_counts():
    parts = factories.parts({"exemptNamespaces": ["kube-system"]})
    placeholder = {"scheduling.koordinator.sh/reserve-pod": "true"}
    for namespace in ("default", "kube-system"):
        pod = factories.pod("fake", namespace=namespace, node="n1", phase="Running", annotations=placeholder)
        parts.cluster.pod_changed(pod, NOW)
    assert [pod.key for pod in parts.cluster.entries["n1"].load.pods.values()] == ["default/fake"]


def test_a_deferred_resize_passes_on_the_node_of_its_pod():
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1"))
    reported = [factories.reported("big", "20", "1Gi")]
    usage = {"cpu": "60", "memory": "10Gi"}
    parts.cluster.metric_changed(factories.metric("n1", usage=usage, pods_metric=reported))
    resized = {"requests": {"cpu": "26", "memory": "1Gi"}, "node": "n1", "scheduled": -3600, "phase": "Running"}
    parts.cluster.pod_changed(factories.pod("big", **resized), NOW)
    pod = factories.pod_document("big", **resized)
    assert json.loads(parts.extender.filter(factories.request(pod, ["n1"]), NOW))["NodeNames"] == ["n1"]
    victims = {"n1": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 0}}
    preemption = json.dumps({"Pod": pod, "NodeNameToMetaVictims": victims}).encode()
    assert json.loads(parts.extender.preempt(preemption, NOW))["NodeNameToMetaVictims"].keys() == {"n1"}

import pytest

from api_types.kubernetes import pods
from api_types.node_metric import mid_eviction
from manager.cache.store import NodeStore
from manager.mid_resource import decision
from manager.mid_resource.decision import CANDIDATE_TAINT, CORDON_TAINT, LEAVING_TAINTS
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.reasons import Closed
from manager.slo_config import strategy

STRATEGY = strategy.unconfigured()


def node(*taints, unschedulable=None, **metadata):
    found = [{"key": key, "effect": "NoSchedule", "timeAdded": "2026-11-21T12:00:00Z"} for key in taints]
    store = NodeStore()
    meta = {"name": "n1", "uid": "u1", "resourceVersion": "1", **metadata}
    store.update(store.decode({"metadata": meta, "spec": {"taints": found, "unschedulable": unschedulable}}))
    return store.get("n1")


@pytest.mark.parametrize("taint", sorted(LEAVING_TAINTS))
def test_a_node_with_a_taint_of_its_end_leaves_and_the_taint_is_named(taint):
    assert decision.classify(node("team", taint)) == (Closed.LEAVING, f"taint {taint}")


@pytest.mark.parametrize(
    ("given", "closed", "cause"),
    [
        (node(CANDIDATE_TAINT), Closed.SCALE_DOWN_CANDIDATE, f"taint {CANDIDATE_TAINT}"),
        (node(unschedulable=True), Closed.CORDONED, "spec.unschedulable"),
        (node(CORDON_TAINT), Closed.CORDONED, f"taint {CORDON_TAINT}"),
        (node(CANDIDATE_TAINT, unschedulable=True), Closed.CORDONED, "spec.unschedulable"),
        (node("karpenter.sh/disrupted", unschedulable=True), Closed.LEAVING, "taint karpenter.sh/disrupted"),
        (node("karpenter.sh/unregistered", unschedulable=False), Closed.NO, ""),
        (node("aws-node-termination-handler/rebalance-recommendation"), Closed.NO, ""),
        (pods.Node(), Closed.NO, ""),
    ],
)
def test_a_node_that_may_leave_or_is_cordoned_gives_up_no_pod(given, closed, cause):
    found = decision.classify(given)
    assert (found.closed, found.cause, found.is_leaving) == (closed, cause, closed is Closed.LEAVING)


@pytest.mark.parametrize(
    ("autoscaler", "metadata", "why"),
    [
        ("karpenter", {"labels": {"karpenter.sh/nodepool": "p"}}, ""),
        ("karpenter", {}, "it lacks the label karpenter.sh/nodepool: Karpenter did not make it"),
        ("cluster-autoscaler", {}, ""),
        ("none", {}, ""),
        ("none", {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "karpenter.sh/do-not-disrupt is true"),
        ("none", {"annotations": {"karpenter.sh/do-not-disrupt": "false"}}, ""),
        (
            "cluster-autoscaler",
            {"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}},
            "scale-down-disabled is true",
        ),
        ("none", {"labels": {"node-role.kubernetes.io/control-plane": ""}}, "node-role.kubernetes.io/control-plane"),
    ],
)
def test_a_node_that_no_autoscaler_would_remove_is_named(autoscaler, metadata, why):
    found = decision.why_kept(node(**metadata), autoscaler)
    assert found.endswith(why)
    assert bool(found) is bool(why)


def evicted(trigger):
    record = mid_eviction.MidEvictionRecord(time="2026-11-21T12:00:00Z", since="2026-11-21T12:00:00Z", trigger=trigger)
    return {"annotations": {"koordinator.sh/mid-eviction": mid_eviction.encode(record)}}


@pytest.mark.parametrize(
    ("given", "closed"),
    [
        (node(**evicted("MidCPUShort")), Closed.EVICTED),
        (node(**evicted(Trigger.MID_ONLY)), Closed.MID_ONLY),
        (node("karpenter.sh/disrupted", **evicted(Trigger.MID_ONLY)), Closed.LEAVING),
        (node(CANDIDATE_TAINT, **evicted("MidCPUShort")), Closed.EVICTED),
        (node(unschedulable=True), Closed.CORDONED),
        (node(), Closed.NO),
    ],
)
def test_the_strongest_reason_closes_a_node(given, closed):
    record = mid_eviction.eviction_record(given)
    assert decision.why_closed(decision.classify(given), record, STRATEGY) is closed


def test_the_taints_of_a_node_survive_a_write_of_its_annotation():
    store = NodeStore()
    first = node("karpenter.sh/disrupted")
    store.update(first)
    written = {"metadata": {"name": "n1", "uid": "u1", "resourceVersion": "2", "annotations": {}}, "spec": {
        "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24",
    }}  # fmt: skip
    store.update(store.decode(written))
    assert decision.classify(store.get("n1")).is_leaving

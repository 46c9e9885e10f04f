"""What a pod could request to fit on a node, and what of pod and node leaves no claim."""

import pytest

from fleet.node_state import Amounts, NodeState
from koordctl.explain import room

GIB, MIB = 2**30, 2**20
STATE = NodeState("n1")
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
CPU = {"cpu": 1_000}


def pod(cpu="2", memory="1Gi", phase="Running", **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}, "status": {"phase": phase}}


def node(pods="110", **spec):
    allocatable = {"cpu": "4", "memory": "4Gi", "pods": pods}
    return {"metadata": {"name": "n1", "labels": {"disk": "ssd"}}, "spec": spec, "status": {"allocatable": allocatable}}


def claimed(waiting=None, on=None, bound=(), state=STATE):
    """Return what is claimed of a pod of 2 cores on a node of which 3 of 4 cores are requested."""
    made = room.room(waiting or pod(), on or node(), [pod("3"), *bound], state)
    return made and dict(made.at_most)


def test_what_is_short_is_named_with_what_is_free():
    made = room.room(pod(memory="4Gi"), node(), [pod("3", f"{GIB + 1}")], STATE)
    assert made == room.Room("n1", {"cpu": 1_000, "memory": 3 * GIB - MIB})
    assert str(made) == "the pod requested at most 1 cores of cpu and 2.9 GiB of memory (n1 now)"


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAffinity": {}}}, {"topologySpreadConstraints": [{}]}, {"resourceClaims": [{}]},
        {"schedulingGates": [{}]}, {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
        {"volumes": [{"name": "v", "ephemeral": {}}]}, {"nodeSelector": {"disk": "hdd"}},
        {"containers": [{**pod()["spec"]["containers"][0], "ports": [{"hostPort": 80}]}]},
    ],
)  # fmt: skip
def test_a_pod_for_which_more_decides_gets_no_claim(spec):
    assert claimed(pod(**spec)) is None


@pytest.mark.parametrize("spec", [{"volumes": [{"name": "v", "emptyDir": {}}]}, {"nodeSelector": {"disk": "ssd"}}])
def test_what_keeps_it_from_no_node_is_no_obstacle(spec):
    assert claimed(pod(**spec)) == CPU


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"on": node(unschedulable=True)}, None),
        ({"on": node(taints=[TAINT])}, None),
        ({"on": node(taints=[TAINT | {"effect": "NoExecute"}])}, None),
        ({"on": node(taints=[TAINT | {"effect": "PreferNoSchedule"}])}, CPU),
        ({"on": node(pods="1")}, None),
        ({"state": NodeState("n1", closed="MidEvicted")}, None),
        ({"bound": [pod("0", affinity={"podAntiAffinity": {"required": []}})]}, None),
        ({"bound": [pod("1")]}, None),
        ({"bound": [pod("1", phase="Failed"), pod("1", phase="Succeeded")]}, CPU),
    ],
)
def test_a_node_on_which_nothing_is_free_or_more_decides_has_no_claim(more, expected):
    assert claimed(**more) == expected


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        ({"operator": "Exists"}, True), ({"key": "team", "operator": "Exists"}, True), ({"key": "team"}, False),
        ({"key": "team", "value": "a"}, True), ({"key": "team", "operator": "Equal", "value": "b"}, False),
        ({"key": "other", "operator": "Exists"}, False), ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "team", "value": "a", "effect": "NoSchedule"}, True),
    ],
)  # fmt: skip
def test_a_taint_is_tolerated_as_by_kube_scheduler(toleration, is_tolerated):
    assert claimed(pod(tolerations=[toleration]), node(taints=[TAINT])) == (CPU if is_tolerated else None)


def test_of_mid_no_more_is_free_than_is_calculated():
    requests = {"kubernetes.io/mid-cpu": "2000"}
    waiting = {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}
    on = node()
    on["status"]["allocatable"]["kubernetes.io/mid-cpu"] = "1500"
    assert claimed(waiting, on) == {"kubernetes.io/mid-cpu": 1_500}
    assert claimed(waiting, on, state=NodeState("n1", short={"kubernetes.io/mid-cpu": 1})) is None


def test_the_node_with_the_least_missing_is_the_nearest_and_hot_ones_are_left_out():
    nodes = [
        NodeState(name, Amounts(10_000, GIB), used=Amounts(used, 0), mid=Amounts(mid, GIB), mid_requests=Amounts(0, 0))
        for name, used, mid in (("a", 0, 1_000), ("b", 0, 3_000), ("hot", 9_000, 5_000))
    ]
    requests = {"kubernetes.io/mid-cpu": 4_000, "kubernetes.io/mid-memory": 0}
    assert [state.name for state in room.nearest(requests, nodes, {"cpu": 65.0})] == ["b", "a"]

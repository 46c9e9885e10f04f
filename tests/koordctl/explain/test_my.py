"""`koordctl my`, by the objects that an apiserver serves; e2e/cases/koordctl/test_rights.py has a real one."""

import json

import pytest

from koordctl import __main__ as koordctl
from tests.fleet import cluster
from tests.koordctl import samples
from tests.koordctl.serving import kubeconfig_of

MID = {"kubernetes.io/mid-cpu": "2000", "kubernetes.io/mid-memory": "4Gi"}


@pytest.fixture
def my(tmp_path, capsys):
    """Return a function that prints what a tenant of `shop` sees of some objects; None is forbidden."""

    def run(*arguments, pods=(), quota=None, events=(), **routes):
        annotations = {} if quota is None else {"koordinator.sh/mid-quota": quota}
        served = {
            "nodes": cluster.listing(cluster.node()),
            "metrics": cluster.listing(cluster.metric()),
            "/api/v1/namespaces/shop": {"metadata": {"name": "shop", "annotations": annotations}},
            "/api/v1/namespaces/shop/pods": cluster.listing(*pods),
            "/api/v1/namespaces/shop/events": cluster.listing(*events),
            **routes,
        }
        with kubeconfig_of(tmp_path, **served) as file:
            code = koordctl.main(["my", "-n", "shop", "--kubeconfig", str(file), *arguments])
        return code, *capsys.readouterr()

    return run


def waiting(message, reason="Unschedulable"):
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    pod = cluster.pod("etl-0", "shop", "", 7000, MID)
    return pod | {"status": {"phase": "Pending", "conditions": [condition]}}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("0/9 nodes are available: 9 Insufficient cpu. preemption: none.", "9 nodes: Insufficient cpu"),
        ("Scheduling is blocked due to non-empty scheduling gates", "blocked due to non-empty scheduling gates"),
        ("", "Unschedulable"),
    ],
)
def test_a_pod_that_waits_has_the_reason_of_its_scheduler(my, message, text):
    assert text in my(pods=[waiting(message)])[1]


@pytest.mark.parametrize(
    ("quota", "text"),
    [
        (None, "holds 2 cores and 4.0 GiB; it has no quota of its own"),
        ('{"cpu": "3"}', "its quota leaves 1 cores and - GiB of 3 cores and - GiB"),
        ("{", "its quota is malformed, so it gets no new Mid pod"),
    ],
)
def test_the_quota_is_that_of_the_annotation_and_ended_pods_hold_nothing(my, quota, text):
    ended = cluster.pod("done", "shop", "worker-1", 7000, MID) | {"status": {"phase": "Succeeded"}}
    code, out, _ = my(pods=[cluster.pod("a", "shop", "worker-1", 7000, MID), cluster.pod(), ended], quota=quota)
    assert (code, text in out) == (0, True)
    assert "done" not in out, "nor is a pod of another class listed"
    assert "web-0" not in out


def test_a_pod_with_a_container_without_a_limit_is_named(my):
    assert "a container has no limit" in my(pods=[cluster.pod("a", "shop", "worker-1", 7000, MID)])[1]
    assert "a container has no limit" not in my(pods=[samples._limited()])[1]


def test_free_is_what_no_pod_requests_and_a_closed_node_has_none(my):
    assert "free Mid: 2.223 cores and 2.0 GiB, at most 2.223 cores and 2.0 GiB on one node (worker-1)" in my()[1]
    status = json.loads(cluster.mid_status()["koordinator.sh/mid-resource-status"]) | {"closed": "MidFrozen"}
    closed = cluster.node(annotations={"koordinator.sh/mid-resource-status": json.dumps(status)})
    assert "free Mid: no node takes new Mid pods" in my(nodes=cluster.listing(closed))[1]


def test_what_may_not_be_read_is_one_line_and_the_rest_is_shown(my):
    missing = {"nodes": None, "metrics": None, "/api/v1/namespaces/shop/events": None}
    code, out, err = my(pods=[samples._limited()], **missing)
    assert code == 0
    assert "limited to 0.5 of 2 cores" in out
    (line,) = err.splitlines()
    assert line.startswith("not read: nodes, nodemetrics, events: ")
    assert line.endswith("; the ClusterRole koord-tenant and the role view of the namespace have them")
    missing["/api/v1/namespaces/shop/pods"] = None
    code, _, err = my(**missing)
    assert (code, "the ClusterRole koord-tenant" in err) == (3, True)
    assert "shop holds - cores" in my(**{"/api/v1/namespaces/shop/pods": None})[1]
    code, out, err = my(**{"/api/v1/namespaces/shop": ({"code": 404, "details": {"name": "shop"}}, 404)})
    assert (code, out, "404" in err) == (1, "", True)

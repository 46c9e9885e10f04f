"""`koordctl explain pod`: with the decision record, without the right for it, and for a pod that runs."""

import datetime as dt
import json

import pytest

from component_base import clock
from koordctl import __main__ as koordctl
from tests.fakes import fake_kubectl
from tests.fleet import cluster
from tests.koordctl.explain.test_misses import MID, guarded
from tests.koordctl.explain.test_node import cluster_of
from tests.koordctl.serving import METRICS, SUITE, kubeconfig_of

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SUITE}/leases/koord-scheduler"
POD = "/api/v1/namespaces/shop/pods/etl-0"
MESSAGE = f"0/2 nodes are available: 1 Insufficient kubernetes.io/mid-cpu, 1 {MID}. preemption: none"
REQUESTS = {"kubernetes.io/mid-cpu": "11k", "kubernetes.io/mid-memory": "8Gi"}
REFUSED = "import sys; sys.exit('error: error upgrading connection: pods \"s\" is forbidden: cannot create')"


def waiting(node="", **metadata):
    found = cluster.pod("etl-0", "shop", node, 7000, REQUESTS)
    found["metadata"] |= {"creationTimestamp": "2026-11-21T09:54:00Z", "uid": "u-1", **metadata}
    found["spec"]["schedulerName"] = "koord-scheduler"
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": MESSAGE}
    found["status"] = (
        {"phase": "Running", "startTime": "2026-11-21T09:55:00Z"}
        if node
        else {"phase": "Pending", "conditions": [unscheduled]}
    )
    return found


def decision(**changes):
    return {
        "at": 1_795_255_189.0, "uid": "u-1", "isProd": False, "isPinned": False, "estimate": {"cpu": 0, "memory": 0},
        "nodesAsked": 1, "nodesPassed": 0, "node": None, "outcome": "no node passed, kube-scheduler will try again",
        "nodes": [{**guarded("worker-1", 9_800), "score": None, "sentence": f"rejected by MidGuard: {MID}"}],
        "nodesLeftOut": 0, **changes,
    }  # fmt: skip


def page(*decisions):
    return json.dumps({"pod": "shop/etl-0", "decisions": list(decisions)}).encode()


@pytest.fixture
def explain(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(clock, "utc_now", lambda: dt.datetime.fromisoformat(cluster.NOW))

    def run(*words, pod=None, kubectl=None, routes=None):
        ran = fake_kubectl.install(tmp_path, monkeypatch, kubectl or fake_kubectl.serving(page(decision())))
        held = {"spec": {"holderIdentity": "koord-scheduler-7c9f_1234"}}
        objects = cluster_of() | {POD: pod or waiting(), LEASE: held} | (routes or {})
        with kubeconfig_of(tmp_path, **objects) as file:
            code = koordctl.main(["explain", "pod", *words, "--kubeconfig", str(file)])
        return code, *capsys.readouterr(), ran

    return run


def test_a_pod_that_waits_has_reasons_nearest_misses_and_what_would_fit(explain):
    code, out, err, ran = explain("shop/etl-0", "--as", "jane", "--as-group", "viewers")
    assert (code, err) == (0, "")
    assert out.startswith("shop/etl-0 is Pending for 6m: ")
    assert "Mid pod of koord-scheduler, requests 11 cores and 8.0 GiB of Mid" in out
    assert "0 of 1 nodes passed the scheduler plugin; no node passed, kube-scheduler will try again" in out
    assert "worker-1 has 9.8 cores left by its newest report, short by 1.2 cores" in out
    assert "worker-1 has 2.223 cores left, short by 8.777 cores" in out
    assert "it would fit if the pod requested at most" in out
    words = json.loads(ran.read_text())[1]
    assert "pod/koord-scheduler-7c9f" in words
    assert {"--as=jane", "--as-group=viewers"} <= set(words)


@pytest.mark.parametrize(
    ("kubectl", "lack"),
    [
        (REFUSED, "forbidden"),
        (
            fake_kubectl.serving(b"no recorded decision on the pod\n", 404),
            "refused all nodes before it asked the plugin",
        ),
        (fake_kubectl.serving(b"<html>"), "is not the debug-port of this plugin"),
    ],
)
def test_without_a_record_the_event_is_explained_and_the_lack_is_named(explain, kubectl, lack):
    code, out, err, _ = explain("etl-0", "-n", "shop", kubectl=kubectl)
    assert code == 0
    assert "worker-1 has 2.223 cores left, short by 8.777 cores" in out
    assert "no decision record" in err
    assert lack in err


def test_without_a_lease_of_the_scheduler_nothing_is_forwarded(explain):
    code, _, err, ran = explain("shop/etl-0", routes={LEASE: None})
    assert code == 0
    assert "not read: leases/koord-scheduler" in err
    assert "has no holder" not in err
    assert not ran.exists()


def test_a_pod_that_runs_has_its_node_and_the_turn_of_an_eviction(explain):
    chosen = {"node": "worker-1", "result": "chosen", "score": 81, "reason": None, "plugin": None, "inputs": {},
              "sentence": "chosen, score 81; cpu 21 + 6.8 of 100 = 28 %, limit 65 %"}  # fmt: skip
    bound = decision(node="worker-1", nodesPassed=2, nodesAsked=2, nodes=[chosen, {**chosen, "node": "worker-2"}])
    code, out, _, _ = explain("shop/etl-0", "--nodes", "1", pod=waiting("worker-1"),
                              kubectl=fake_kubectl.serving(page(bound)))  # fmt: skip
    assert code == 0
    assert "shop/etl-0 is Running on worker-1" in out
    assert "chosen, score 81" in out
    assert "and 1 more nodes (--nodes 0 shows all)" in out
    assert "eviction: nothing on worker-1 is short enough" in out


def test_the_turn_names_the_pod_that_is_next(explain):
    short = cluster.metric(usage={"prod": {"cpu": "14", "memory": "20Gi"}, "system": {"cpu": "1", "memory": "2Gi"},
                                  "batchAndFree": {"cpu": "0", "memory": "0"}})  # fmt: skip
    pod = waiting("worker-1")
    routes = {f"{METRICS}/worker-1": short, "pods": cluster.listing(pod)}
    _, out, _, _ = explain("shop/etl-0", pod=pod, routes=routes)
    assert "eviction: " in out
    assert "shop/etl-0" in out.partition("eviction: ")[2]
    assert "nothing on worker-1 is short enough" not in out


def test_the_document_has_the_whole_record(explain):
    _, out, _, _ = explain("shop/etl-0", "-o", "json")
    found = json.loads(out)
    assert found["decisions"] == [decision()]
    assert found["rejections"][0]["nearestNode"] == "worker-1"
    assert found["midRequests"] == {"cpuMillis": 11_000, "memoryBytes": 8 * 2**30}


@pytest.mark.parametrize("words", [("a/b/c",), ("shop/",), ("/x",)])
def test_a_wrong_name_is_wrong_usage(explain, words):
    code, _, err, _ = explain(*words)
    assert code == 2
    assert "want NAMESPACE/NAME" in err


@pytest.mark.parametrize("shown", [page(decision(), 1), b'{"pod": "shop/etl-0", "decisions": {"0": {}}}'])
def test_a_page_without_a_list_of_decisions_is_no_record(explain, shown):
    code, out, err, _ = explain("shop/etl-0", kubectl=fake_kubectl.serving(shown))
    assert (code, err) == (0, "")
    assert "last decision" not in out
    assert "worker-1 has 2.223 cores left, short by 8.777 cores" in out

"""`koordctl check --pilot`: the exit criteria of each stage, by the nodes of the pool."""

import json

import pytest

import koordctl.__main__ as koordctl
from api_types.kubernetes import times
from component_base import clock
from tests.fleet import cluster
from tests.koordctl.serving import healthy, kubeconfig_of

POOL = "/api/v1/nodes?koord-suite.io/pilot=true"
FAILED = "/api/v1/pods?status.phase=Failed"


def scores(forecasts, percent, predictor="n-sigma-v2"):
    of = {"forecasts": forecasts, "violationPercent": percent, "savingsPercent": 30.0}
    return {"predictor": predictor, "cpu": of, "memory": of}


def metric(name, forecasts=30.0, percent=0.4, mid=True):
    evaluation = [scores(forecasts, percent), scores(99.0, 9.0, "calibrated")]
    status = {"prediction": {"predictor": "n-sigma-v2", "evaluation": evaluation}}
    return cluster.metric(name, **status) if mid else cluster.metric(name, **status, allocated={"mid": {}})


def evicted(name, node="worker-1", priority=9000, reason="Evicted"):
    pod = cluster.pod(name, node=node, priority=priority)
    return {**pod, "status": {"phase": "Failed", "reason": reason}}


def short():
    return cluster.node(annotations=cluster.mid_status(calculated=100))


def check(tmp_path, monkeypatch, capsys, stage, nodes=None, metrics=None, failed=()):
    """Return the exit code, and the texts of the criteria that are not met; worker-3 is not in the pool."""
    monkeypatch.setattr(clock, "utc_now", lambda: times.parse_rfc3339(cluster.NOW))
    pool = nodes or [cluster.node("worker-1"), cluster.node("worker-2")]
    routes = healthy(
        nodes=cluster.listing(*pool, cluster.node("worker-3")),
        metrics=cluster.listing(*(metrics or [metric("worker-1"), metric("worker-2")]), metric("worker-3", 2.0, 50.0)),
        lease={"spec": {}},
    ) | {POOL: cluster.listing(*pool), FAILED: cluster.listing(*failed)}
    with kubeconfig_of(tmp_path, **routes) as file:
        words = ["check", "--pilot", stage, "--skip", "rights,cluster,installation,scheduling"]
        code = koordctl.main([*words, "--kubeconfig", str(file), "-o", "json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    return code, [each["text"] for each in checks if each["code"] == "PilotStage" and each["verdict"] != "passed"]


@pytest.mark.parametrize("stage", ["observe", "pool"])
def test_a_stage_is_over_by_the_nodes_of_the_pool_alone(tmp_path, monkeypatch, capsys, stage):
    failed = [evicted("a", "worker-3"), evicted("b", priority=7000), evicted("c", reason="NodeLost")]
    assert check(tmp_path, monkeypatch, capsys, stage, failed=failed) == (0, [])


@pytest.mark.parametrize(
    ("stage", "changes", "texts"),
    [
        ("observe", {"metrics": [metric("worker-1", 23.0)]},
         ["2 of 2 nodes have no 24 forecasts yet: worker-1 has 23, worker-2 has 0"]),
        ("observe", {"metrics": [metric("worker-1", percent=1.2), metric("worker-2", percent=0.6)]},
         ["usage of memory was above the peak in 0.90 % of the forecasts, want at most 0.5 %"]),
        ("pool", {"metrics": [metric("worker-1", mid=False), metric("worker-2", mid=False)]},
         ["Mid pods run on 0 of 2 nodes"]),
        ("pool", {"nodes": [short(), cluster.node("worker-2")]}, ["short of Mid: worker-1"]),
        ("pool", {"failed": [evicted("web-0")]}, ["Prod pods evicted by a kubelet: shop/web-0"]),
        ("all", {}, ["1 of 3 nodes have no 24 forecasts yet: worker-3 has 2",
                     "usage of cpu was above the peak in 2.00 % of the forecasts, want at most 1 %",
                     "usage of memory was above the peak in 2.00 % of the forecasts, want at most 0.5 %"]),
    ],
)  # fmt: skip
def test_each_criterion_that_is_not_met_is_named(tmp_path, monkeypatch, capsys, stage, changes, texts):
    assert check(tmp_path, monkeypatch, capsys, stage, **changes) == (1, texts)

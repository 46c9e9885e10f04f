"""`koordctl estimate` with a real Prometheus: totals by hand, the sample, an hour of history, the way to it."""

import json
import math
import re

import pytest

from e2e.thirdparty.prometheus import backfill
from e2e.thirdparty.prometheus.backfill import Sample
from koordctl import __main__ as koordctl
from koordctl.estimate import forecast
from tests.fakes import fake_kubectl
from tests.fleet import cluster
from tests.koordctl.backtest.conftest import DAY, GIB, START, STEP, serve
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving
from tests.koordctl.backtest.test_prometheus import TOO_MUCH, refusal
from tests.koordctl.estimate.test_now import USAGE, measured
from tests.koordctl.serving import kubeconfig_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

USED = {"a0": 0.5, "a1": 0.5, "a2": 0.9, "b0": 3.0}
"""Cores, and GiB, of each of two pods on a node, all the time."""
REQUESTED, ALLOCATABLE = 4, 16
END = START + DAY


def series(rolled_out_at=None):
    """Yield a day of a cluster in which nothing changes: the peak of n-sigma-v2 is the usage.

    With a time of a roll-out, Deployments own the pods, and that of the node b0 replaces its pods then.
    """
    by_name, of_controller = {}, {"namespace": "default", "owner_is_controller": "true"}
    for node, used in USED.items():
        add = lambda name, at, value, **labels: by_name.setdefault(name, []).append(  # noqa: E731
            Sample(name, labels, at, value)
        )
        change = rolled_out_at if rolled_out_at and node == "b0" else END + 1
        for pod in range(4):
            labels = {"namespace": "default", "pod": f"{node}-{pod}", "node": node}
            replica_set = f"{node}-{'old' if pod < 2 else 'new'}"
            for at in range(*((START, change) if pod < 2 else (change, END + 1)), STEP):
                if rolled_out_at:
                    owner = {**of_controller, "owner_kind": "ReplicaSet", "owner_name": replica_set}
                    add("kube_pod_owner", at, 1, **owner, pod=labels["pod"])
                    owner = {**of_controller, "owner_kind": "Deployment", "owner_name": node}
                    add("kube_replicaset_owner", at, 1, **owner, replicaset=replica_set, instance=str(pod))
                add("container_cpu_usage_seconds_total", at, used * (at - START), **labels, container="c")
                add("container_memory_working_set_bytes", at, used * GIB, **labels, container="c")
                add("kube_pod_info", at, 1, **labels, uid=f"u-{node}-{pod}")
                for resource, value in (("cpu", REQUESTED), ("memory", REQUESTED * GIB)):
                    add(
                        "kube_pod_container_resource_requests", at, value, **labels, uid=f"u-{node}-{pod}",
                        container="c", resource=resource,
                    )  # fmt: skip
        for name in ("kube_node_status_capacity", "kube_node_status_allocatable"):
            for at in range(START, END + 1, STEP):
                for resource, value in (("cpu", ALLOCATABLE), ("memory", ALLOCATABLE * GIB)):
                    add(name, at, value, node=node, resource=resource)
    for samples in by_name.values():
        yield from samples


def address(folders, rolled_out_at=None):
    folder = folders.mktemp("day")
    backfill.write(folder, series(rolled_out_at))
    prometheus = serve(folder)
    yield prometheus.url
    prometheus.stop()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    yield from address(tmp_path_factory)


@pytest.fixture(scope="module")
def rolled_out(tmp_path_factory):
    yield from address(tmp_path_factory, rolled_out_at=END - 2 * 3600)


def routes(**changes):
    nodes = [
        cluster.node(name, "16", "16Gi", mid_cpu=None, labels={"cloud.google.com/gke-nodepool": name[0]})
        for name in (*USED, "b-new")
    ]
    usage = cluster.listing(*(measured(name, "12" if name == "b0" else "1", "1Gi") for name in USED))
    return {"nodes": cluster.listing(*nodes), "pods": cluster.listing(), USAGE: usage, **changes}


def estimate(tmp_path, capsys, *flags, served=None, start=START):
    with kubeconfig_of(tmp_path, **(served or routes())) as file:
        words = ["estimate", "--kubeconfig", str(file), "--from", start, "--to", END, "--workers", 1, *flags]
        code = koordctl.main([str(word) for word in words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_totals_are_those_of_a_calculation_by_hand(url, tmp_path, capsys):
    code, out, _ = estimate(tmp_path, capsys, "--prometheus", url, "-o", "json", "--cpu-price", "0.05")
    found = json.loads(out)
    free = {name: 2 * (REQUESTED - used) for name, used in USED.items()}
    for resource in ("cpu", "memoryGiB"):
        assert {pool["name"]: pool["offered"][resource] for pool in found["pools"]} == pytest.approx(
            {"a": free["a0"] + free["a1"] + free["a2"], "b": free["b0"]}, rel=0.02
        )
        assert found["total"]["offeredP10"][resource] == pytest.approx(sum(free.values()), rel=0.02)
        assert found["total"]["requested"][resource] == 2 * REQUESTED * len(USED)
        assert found["total"]["used"][resource] == pytest.approx(2 * sum(USED.values()), rel=0.02)
        assert found["total"]["allocatable"][resource] == ALLOCATABLE * len(USED)
    assert [(peak["resource"], peak["ratio"]) for peak in found["prodAbovePeak"]] == [("cpu", 0), ("memory", 0)]
    assert {row["predictor"] for row in found["forecasts"]} == {"n-sigma-v2", "calibrated"}
    assert found["worthAMonth"] == pytest.approx(730 * 0.05 * found["total"]["offeredP10"]["cpu"], abs=0.01)
    assert (code, found["hotNodes"], found["historySeconds"]) == (0, ["b0"], DAY)
    missing = "\n".join(found["missing"])
    assert "no series of the owners of pods" in missing
    assert "1 nodes of the cluster: not in Prometheus" in missing


def test_a_sample_is_scaled_to_its_pool_and_its_spread_is_shown(url, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(forecast, "SAMPLE", 2)
    _, out, _ = estimate(tmp_path, capsys, "--prometheus", url, "-o", "json")
    pool = json.loads(out)["pools"][0]
    chosen = forecast.sample(dict.fromkeys(("a0", "a1", "a2"), "a"))
    free = [2 * (REQUESTED - USED[name]) for name in chosen]
    apart = abs(free[0] - free[1]) / math.sqrt(2)
    assert (pool["nodes"], pool["nodesRead"]) == (3, 2)
    assert pool["offered"]["cpu"] == pytest.approx(3 * sum(free) / 2, rel=0.02)
    assert pool["spread"]["cpu"] == pytest.approx(1.96 * 3 * apart / math.sqrt(2) * math.sqrt(1 / 3), rel=0.1)
    _, out, _ = estimate(tmp_path, capsys, "--prometheus", url)
    assert "3 of 4 nodes were read" in out
    _, out, _ = estimate(tmp_path, capsys, "--prometheus", url, "--all", "--workers", 2)
    assert "were read" not in out


@pytest.mark.parametrize(("flags", "read", "offered"), [([], 2, 0), (["--all"], 4, 2 * (REQUESTED - USED["b0"]))])
def test_what_a_workload_used_before_its_roll_out_counts_where_every_node_is_read(
    flags, read, offered, rolled_out, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(forecast, "SAMPLE", 1)
    _, out, _ = estimate(tmp_path, capsys, "--prometheus", rolled_out, "-o", "json", *flags)
    found = json.loads(out)
    assert found["total"]["nodesRead"] == read
    assert found["pools"][1]["offered"]["cpu"] == pytest.approx(offered, rel=0.02)
    assert any("what nodes learn from one another" in gap for gap in found["missing"]) is not bool(flags)


def test_an_hour_is_answered_and_the_screen_says_what_it_is_worth(url, tmp_path, capsys):
    code, out, _ = estimate(tmp_path, capsys, "--prometheus", url, start=END - 3600)
    assert code == 0
    assert "1 hours of history, want 7 days" in out
    assert "the risk is not known" in out
    assert "times of 15 minutes" in out


def test_a_query_of_all_the_time_that_is_too_much_is_divided_into_days(rolled_out, tmp_path, capsys):
    def change(_name, parameters, *answered):
        window = re.search(r"max_over_time.*\[(\d+)s\]", parameters.get("query", ""))
        return refusal("execution", TOO_MUCH) if window and int(window[1]) > DAY else answered

    with serving(Proxy(upstream=rolled_out, change=change)) as proxy:
        _, out, _ = estimate(tmp_path, capsys, "--prometheus", proxy.url, "--nodes", "b0", "-o", "json")
    assert json.loads(out)["total"]["offered"]["cpu"] == pytest.approx(2 * (REQUESTED - USED["b0"]), rel=0.02)


def test_a_prometheus_of_the_cluster_is_found_and_reached_by_a_port_forward(url, tmp_path, capsys, monkeypatch):
    pod = cluster.pod("prometheus-k8s-0", "monitoring", labels={"app.kubernetes.io/name": "prometheus"})
    code = f"print('Forwarding from 127.0.0.1:{url.rpartition(':')[2]} -> 9090', flush=True)\ntime.sleep(600)\n"
    fake_kubectl.install(tmp_path, monkeypatch, code)
    _, out, _ = estimate(tmp_path, capsys, served=routes(pods=cluster.listing(pod)))
    assert out.startswith("What Mid resources could give, from 1 day of pod monitoring/prometheus-k8s-0, port 9090\n")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (
            [],
            "pod monitoring/prometheus-k8s-0, port 9090: kubectl port-forward ended: broken; or give --prometheus URL",
        ),
        (["--now"], "a forecast: --now was given"),
    ],
)
def test_without_a_history_the_present_is_shown_and_why(flags, why, tmp_path, capsys, monkeypatch):
    fake_kubectl.install(tmp_path, monkeypatch, "print('broken', file=sys.stderr)\n")
    pod = cluster.pod("prometheus-k8s-0", "monitoring", labels={"app.kubernetes.io/name": "prometheus"})
    code, out, _ = estimate(tmp_path, capsys, *flags, served=routes(pods=cluster.listing(pod)))
    assert out.startswith("What Mid resources could give now, from http://")
    assert f"not shown: {why}" in out.replace("a forecast: pod", "pod")
    assert code == 1  # the only pod is on no node


def test_a_prometheus_of_another_cluster_is_an_error_with_the_fix(url, tmp_path, capsys):
    other = routes(nodes=cluster.listing(cluster.node("z")))
    code, out, err = estimate(tmp_path, capsys, "--prometheus", url, served=other)
    assert (code, out) == (3, "")
    assert "has none of the 1 nodes of http://" in err
    assert "want the Prometheus of this cluster" in err

"""`koordctl estimate` by the API server and metrics-server alone: totals by hand, pools, hot nodes, money, rights."""

import json

import pytest

from koordctl import __main__ as koordctl
from tests.fleet import cluster
from tests.koordctl.serving import kubeconfig_of

pytestmark = pytest.mark.slow

USAGE = "/apis/metrics.k8s.io/v1beta1/nodes"
GIB = 2**30
MID = {"kubernetes.io/mid-cpu": "9000", "kubernetes.io/mid-memory": "1Gi"}


def measured(name, cpu, memory):
    return {"metadata": {"name": name}, "usage": {"cpu": cpu, "memory": memory}, "window": "15s"}


def routes(**changes):
    """Return a cluster as recorded of an API server before an installation: two pools, one hot node, a Mid pod."""
    small = {"karpenter.sh/nodepool": "<small>", "node.kubernetes.io/instance-type": "m6i.4xlarge"}
    nodes = [
        cluster.node("a", cpu="16", memory="64Gi", mid_cpu=None, labels=small),
        cluster.node("b", cpu="15890m", memory="64Gi", mid_cpu=None, labels=small),
        cluster.node("c", cpu="64", memory="256Gi", mid_cpu=None),
    ]
    pods = [
        cluster.pod("web-0", "shop", "a", requests={"cpu": "9", "memory": "40Gi"}),
        cluster.pod("web-1", "shop", "a", priority=0, requests={"cpu": "500m", "memory": "2Gi"}),
        cluster.pod("web-2", "shop", "b", requests={"cpu": "12", "memory": "10Gi"}),
        cluster.pod("db-0", "shop", "c", requests={"cpu": "40", "memory": "200Gi"}),
        cluster.pod("etl-0", "shop", "c", priority=7000, requests=MID),
        cluster.pod("waits", "shop", "", requests={"cpu": "30", "memory": "1Gi"}),
    ]
    usage = [measured("a", "3", "20Gi"), measured("b", "13200m", "30Gi"), measured("c", "10123456789n", "120Gi")]
    served = {"nodes": cluster.listing(*nodes), "pods": cluster.listing(*pods), USAGE: cluster.listing(*usage)}
    return served | changes


def estimate(tmp_path, capsys, served, *flags):
    with kubeconfig_of(tmp_path, **served) as file:
        code = koordctl.main(["estimate", "--now", "--kubeconfig", str(file), *flags])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_totals_are_those_of_a_calculation_by_hand(tmp_path, capsys):
    prices = ["--cpu-price", "0.03", "--memory-price", "0.004"]
    code, out, _ = estimate(tmp_path, capsys, routes(), "-o", "json", *prices)
    found = json.loads(out)
    small, large = {pool["name"]: pool for pool in found["pools"]}["<small>"], found["pools"][0]
    # a: 9.5 - 3 cores, 42 - 20 GiB; b uses more CPU than Prod requests, and more memory; c: 40 - 10.124, 200 - 120
    assert small["offered"] == {"cpu": 6.5, "memoryGiB": 22}
    assert (small["nodes"], small["nodesRead"], small["allocatable"]) == (2, 2, {"cpu": 31.89, "memoryGiB": 128})
    assert (large["name"], large["offered"]) == ("64 cores 256 GiB", {"cpu": 29.876, "memoryGiB": 80})
    assert found["total"]["requested"] == {"cpu": 61.5, "memoryGiB": 252}
    assert found["total"]["used"] == {"cpu": 26.324, "memoryGiB": 170}
    assert found["total"]["offered"] == {"cpu": 36.376, "memoryGiB": 102}
    assert found["total"]["spread"] == {"cpu": 0, "memoryGiB": 0}
    assert found["total"]["offeredP10"] == {"cpu": None, "memoryGiB": None}
    assert found["hotNodes"] == ["b"]
    assert found["worthAMonth"] == pytest.approx(730 * (36.376 * 0.03 + 102 * 0.004), abs=0.01)
    assert code == 0


def test_the_screen_has_shares_what_it_is_worth_and_what_to_do_next(tmp_path, capsys):
    _, out, _ = estimate(tmp_path, capsys, routes(), "--cpu-price", "0.03")
    assert "Mid on offer now" in out
    assert "36.4 cores (38 %), 102.0 GiB (27 %)" in out
    assert "Usage now is no forecast" in out
    assert "Hot now, above 65 % of cpu or 95 % of memory: 1 of 3 nodes: b" in out
    assert f"Worth {730 * 36.376 * 0.03:,.2f} in 730 hours at 0.03 a core-hour" in out
    assert "next: koordctl check --pre" in out
    assert all(len(line) < 160 for line in out.splitlines())


def test_a_label_of_the_caller_names_the_pools(tmp_path, capsys):
    _, out, _ = estimate(tmp_path, capsys, routes(), "-o", "name", "--pool-label", "node.kubernetes.io/instance-type")
    assert out.splitlines() == ["pool/64 cores 256 GiB", "pool/m6i.4xlarge"]


def test_without_metrics_server_requests_are_shown_and_nothing_is_on_offer(tmp_path, capsys):
    code, out, _ = estimate(tmp_path, capsys, routes(**{USAGE: ({"code": 404}, 404)}), "-o", "json", "--cpu-price", "1")
    found = json.loads(out)
    assert (code, found["total"]["requested"]["cpu"], found["total"]["offered"]["cpu"]) == (1, 61.5, None)
    assert found["worthAMonth"] is None
    assert "want metrics-server" in found["missing"][1]


def test_a_node_without_usage_is_left_out_and_named(tmp_path, capsys):
    usage = cluster.listing(measured("a", "3", "20Gi"), measured("b", "13200m", "30Gi"))
    found = json.loads(estimate(tmp_path, capsys, routes(**{USAGE: usage}), "-o", "json")[1])
    assert (found["total"]["nodes"], found["total"]["offered"]["cpu"]) == (2, 6.5)
    assert "usage now of 1 of 3 nodes, such as c: metrics-server has none" in found["missing"]


@pytest.mark.parametrize("missing", ["nodes", "pods"])
def test_without_the_right_to_nodes_or_pods_the_error_names_it(missing, tmp_path, capsys):
    code, out, err = estimate(tmp_path, capsys, routes(**{missing: None}))
    assert (code, out) == (3, "")
    assert f"not read: {missing}: GET /api/v1/{missing}: 403" in err


def test_the_page_is_one_file_without_markup_of_the_cluster(tmp_path, capsys):
    _, out, _ = estimate(tmp_path, capsys, routes(), "-o", "html")
    assert out.startswith("<!doctype html>")
    assert "&lt;small&gt;" in out
    assert not {"<small>", "<script", "src=", "href="} & set(out.split())

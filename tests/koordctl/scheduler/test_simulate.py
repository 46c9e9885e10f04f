"""`koordctl simulate`: the cluster and the identity are chosen with the flags of every other command."""

import json

import pytest

from koordctl import __main__ as koordctl
from tests.fleet import cluster
from tests.koordctl.serving import healthy, kubeconfig_of


def simulate(file, *words):
    return koordctl.main(["simulate", "--live", "--kubeconfig", str(file), "--hours", "0.1", *words])


def routes(**changes):
    nodes = [cluster.node(name) for name in ("worker-1", "worker-2")]
    for each in nodes:
        each["status"]["allocatable"]["pods"] = "110"
    waiting = cluster.pod("web-1", node="", uid="u-1", creationTimestamp="2026-11-21T09:54:00Z")
    waiting["status"] = {"phase": "Pending"}
    placed = cluster.pod(uid="u-0", creationTimestamp="2026-11-20T00:00:00Z")
    return healthy(nodes=cluster.listing(*nodes), pods=cluster.listing(placed, waiting), **changes)


def test_the_running_cluster_is_read_as_the_flags_want(tmp_path, capsys):
    with kubeconfig_of(tmp_path, **routes()) as file:
        words = ["--context", "x", "--request-timeout", "30", "--as", "jane"]
        assert simulate(file, *words, "-o", "json") == 0
        found = json.loads(capsys.readouterr().out)["stock"]
        assert simulate(file, *words) == 0
    table = capsys.readouterr().out
    assert "shop/web-1" in json.dumps(found)
    assert table.split()[0] == "stock"
    assert not {"pods", "nodes", "metrics"} & {each.stem for each in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--context", "nowhere"], 3, "nowhere"),
        (["--as-group", "viewers"], 2, "--as USER"),
        (["--config", "/does/not/exist"], 2, "/does/not/exist"),
    ],
)
def test_a_wrong_flag_has_the_exit_code_of_every_other_command(words, code, text, tmp_path, capsys):
    with kubeconfig_of(tmp_path, **routes()) as file:
        assert simulate(file, *words) == code
    shown = capsys.readouterr()
    assert text in shown.err
    assert shown.out == ""


def test_a_wrong_configuration_is_found_before_the_cluster_is_read(tmp_path, capsys):
    assert simulate(tmp_path / "none", "--config", "stock", "--config", str(tmp_path / "absent.yaml")) == 2
    assert "absent.yaml" in capsys.readouterr().err


def test_without_the_right_for_pods_the_code_is_3(tmp_path, capsys):
    with kubeconfig_of(tmp_path, **routes() | {"pods": None}) as file:
        assert simulate(file) == 3
    assert "pods" in capsys.readouterr().err

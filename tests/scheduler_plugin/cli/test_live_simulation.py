"""The command simulate with a running cluster, its progress, and the configuration of kube-scheduler."""

import asyncio
import json

import pytest
import yaml

from scheduler_plugin.__main__ import main
from scheduler_plugin.cli import simulate
from tests.fakes import agent_process, apiserver
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.cli.test_simulate import arguments, files
from tests.scheduler_plugin.simulation.test_recorded_cluster import node, report

__all__ = ["files"]


async def live(server, tmp_path):
    config = agent_process.kubeconfig(tmp_path / "kubeconfig", server.url)
    return await asyncio.to_thread(main, ["simulate", "--live", f"--kubeconfig={config}", "--hours=1", "-o", "json"])


async def test_a_running_cluster_is_read_with_the_given_kubeconfig(tmp_path, capsys):
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/nodes", apiserver.page("5", node("n1")))
        server.on("GET", "/api/v1/pods", apiserver.page("5", factories.pod_document("new")))
        reports = apiserver.page("5", report("n1", "1"))
        server.on("GET", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics", reports)
        assert await live(server, tmp_path) == 0
    placements = json.loads(capsys.readouterr().out)["stock"]["placements"]
    assert placements == {"default/new": {"node": "n1", "at_seconds": 0.0}}


async def test_an_answer_of_the_apiserver_that_is_an_error_has_exit_code_1(tmp_path, capsys):
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/pods", apiserver.status(403, "Forbidden", "pods are refused"))
        assert await live(server, tmp_path) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "pods are refused" in err


@pytest.mark.parametrize("given", ["pods", "nodes"])
def test_a_single_file_is_refused_with_a_solution(files, capsys, given):
    assert main(["simulate", f"--{given}={files / given}.json"]) == 2
    assert capsys.readouterr().err == "want --pods and --nodes (and --metrics, if available), or --live\n"


@pytest.mark.parametrize(("weight_of_requests", "placed_on"), [(1, "n2"), (100, "n1")])
def test_the_weights_of_kube_schedulers_configuration_count(files, capsys, weight_of_requests, placed_on):
    # n1 is hot and has few requests, n2 is idle and has many; no filter rejects n1.
    plugins = {
        "filter": {"disabled": [{"name": "*"}]},
        "multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": weight_of_requests}]},
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins, "pluginConfig": [{"name": "LoadAwareScheduling"}]}],
    }
    (files / "load.yaml").write_text(yaml.safe_dump(document))
    assert main(arguments(files, f"--config={files}/load.yaml", "-o", "json")) == 0
    (result,) = json.loads(capsys.readouterr().out).values()
    assert result["placements"]["default/new-0"]["node"] == placed_on


def test_progress_has_a_line_for_each_ten_percent_that_are_complete(capsys):
    report_share = simulate._progress("stock")
    for share in (0.0, 0.05, 0.0995, 0.1, 0.11, 0.35, 0.999, 1.0, 1.0):
        report_share(share)
    assert capsys.readouterr().err.splitlines() == [f"stock: {percent} %" for percent in (0, 10, 30, 90, 100)]

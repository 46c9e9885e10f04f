"""The agent as a process with packages installed beside it: one is published, one is switched off, a state survives."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from koordlet.prediction import checkpoint
from tests.fakes import agent_process, apiserver, installed_package
from tests.host_trees.plain_files import PlainHost
from tests.koordlet.test_agent_process import NODE, NODE_METRICS, NODE_OBJECT, NODES, PODS, learnt_before

ROOT = Path(__file__).parents[2]
RAISING = "class Raising:\n    def predict(self, load):\n        raise ValueError('boom')\n"


def node_metric(predictor):
    spec = {"predictPolicy": {"predictor": predictor, "evaluatedPredictors": ["example/recent-peak"]}}
    return {"metadata": {"name": NODE, "resourceVersion": "5", "generation": 2}, "spec": spec}


async def first_report(tmp_path, predictor):
    """Run an agent with both packages until its first report, and end it; return the status and the log."""
    host = PlainHost(tmp_path / "host")
    host.set_node(1000, 1 << 30)
    learnt_before(tmp_path / "prediction.checkpoint")
    packages = tmp_path / "packages"
    installed_package.install_example(packages)
    installed_package.write(packages, "raising", {"v/raising": "raising:Raising"}, RAISING)
    shown = node_metric(predictor)
    async with apiserver.running() as server:
        server.on("GET", PODS, apiserver.page("1"))
        server.on("GET", NODES, apiserver.page("3", NODE_OBJECT))
        server.on("GET", NODE_METRICS, apiserver.page("5", shown))
        for path in (PODS, NODES, NODE_METRICS):
            server.on("WATCH", path, apiserver.Stream(apiserver.HANG))
        server.on("PUT", f"{NODE_METRICS}/{NODE}/status", apiserver.Answer(shown))
        config = agent_process.kubeconfig(tmp_path / "kubeconfig", server.url)
        path = os.pathsep.join([str(packages), str(ROOT)])
        async with agent_process.running(
            f"--node-name={NODE}", f"--kubeconfig={config}", f"--host-root={tmp_path}/host", f"--state-dir={tmp_path}",
            "--http-address=127.0.0.1", "--http-port=0",
            environment={**agent_process.CHART_ENVIRONMENT, "PYTHONPATH": path},
        ) as process:  # fmt: skip
            async with asyncio.timeout(30):
                await server.until(lambda: server.asked("PUT"))
            status = server.asked("PUT")[0].document["status"]
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(10):
                _out, log = await process.communicate()
    return status, log.decode()


def condition_of(status):
    (found,) = (each for each in status["conditions"] if each["type"] == "PredictionDegraded")
    return found


async def test_the_installed_example_is_published_and_its_state_is_in_the_checkpoint(tmp_path):
    status, log = await first_report(tmp_path, "example/recent-peak")
    assert status["prediction"]["predictor"] == "example/recent-peak"
    assert status["prediction"]["prod"]["peak"]["cpu"] == "1"  # the history has a core of system usage, all of it S
    assert "prodPeakMetric" in status
    assert condition_of(status)["status"] == "False"
    built_in = "n-sigma-v1, n-sigma-v2, borg-default, resource-central, percentile, calibrated, max"
    assert f"predictors: installed are {built_in}; from packages example/recent-peak, v/raising" in log
    stored = checkpoint.load(tmp_path / "prediction.checkpoint", NODE)
    assert stored.packages == {"example/recent-peak": b'{"cpu": 0.0, "memory": 0.0}'}


async def test_one_that_raises_is_switched_off_and_n_sigma_steps_in(tmp_path):
    status, log = await first_report(tmp_path, "v/raising")
    assert status["prediction"]["predictor"] == "n-sigma-v2"
    assert "prodPeakMetric" in status
    found = condition_of(status)
    assert (found["status"], found["reason"]) == ("True", "PredictorSwitchedOff")
    assert found["message"].startswith(
        f"predictor v/raising is switched off on node {NODE} until the agent restarts: predict(cpu) raised ValueError: "
        "boom; n-sigma-v2 is in force in its place"
    )
    assert "predictor v/raising is switched off until the agent restarts: predict(cpu) raised ValueError: boom" in log
    assert log.count("switched off") == 1


async def test_one_that_no_agent_has_is_no_prediction(tmp_path):
    status, _log = await first_report(tmp_path, "v/other")
    assert "prodPeakMetric" not in status
    found = condition_of(status)
    assert (found["status"], found["reason"]) == ("True", "NoPrediction")
    assert f"predictor v/other is not installed on node {NODE}" in found["message"]


def test_preview_lists_the_installed_ones(tmp_path):
    installed_package.install_example(tmp_path)
    command = [sys.executable, "-m", "koordlet", "preview", "--for", "3s", "--predictor"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for name in ("all", "example/recent-peak"):
        done = subprocess.run(
            [*command, name], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "example/recent-peak" in done.stdout
    refused = subprocess.run(
        [*command, "v/other"], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "example/recent-peak" in refused.stderr

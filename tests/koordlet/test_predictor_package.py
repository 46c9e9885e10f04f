"""The agent as a process with packages installed beside it: one is published, one is switched off, a state survives."""

import asyncio
import os
import signal
import time

import pytest

from koordlet.prediction import checkpoint
from koordlet.prediction.packages import states
from tests.fakes import agent_process, apiserver, installed_package
from tests.host_trees.plain_files import PlainHost
from tests.koordlet.test_agent_process import NODE, NODE_METRICS, NODE_OBJECT, NODES, PODS, learnt_before

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
        path = os.pathsep.join([str(packages), os.getcwd()])  # noqa: PTH109
        async with agent_process.running(
            f"--node-name={NODE}", f"--kubeconfig={config}", f"--host-root={tmp_path}/host", f"--state-dir={tmp_path}",
            "--http-address=127.0.0.1", "--http-port=0",
            environment={**agent_process.CHART_ENVIRONMENT, "PYTHONPATH": path},
        ) as process:  # fmt: skip
            async with asyncio.timeout(30):
                report = await server.next("PUT")
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(10):
                _out, log = await process.communicate()
    return report, log.decode()


@pytest.mark.parametrize("_", range(1))
async def test_debug(tmp_path, _):
    assert time and checkpoint and states
    print(await first_report(tmp_path, "example/recent-peak"))

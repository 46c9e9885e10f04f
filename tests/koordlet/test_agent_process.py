"""The agent as a process, started as in its container, against an API server on loopback."""

import asyncio
import datetime as dt
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from koordlet.metric_cache import series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction import checkpoint
from koordlet.prediction.checkpoint import Checkpoint
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from koordlet.samples import Snapshot, UsageSample
from tests.fakes import agent_process, apiserver, installed_package
from tests.host_trees.plain_files import PlainHost

pytestmark = pytest.mark.slow

NODE = "n1"
NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
UNITS = {"cpu": "4", "memory": "8Gi"}
NODE_OBJECT = {"metadata": {"name": NODE, "resourceVersion": "3"}, "status": {"capacity": UNITS, "allocatable": UNITS}}
SECONDS_TO_END = 5.0  # of the 30 s that the kubelet grants


def node_metric(**annotations):
    return {"metadata": {"name": NODE, "resourceVersion": "5", "annotations": annotations}, "spec": {}}


def scripted(server, node_metric_object, *answers_to_reports):
    server.on("GET", PODS, apiserver.page("1"))
    server.on("GET", NODES, apiserver.page("3", NODE_OBJECT))
    server.on("GET", NODE_METRICS, apiserver.page("5", node_metric_object))
    for path in (PODS, NODES, NODE_METRICS):
        server.on("WATCH", path, apiserver.Stream(apiserver.HANG))
    server.on("PUT", f"{NODE_METRICS}/{NODE}/status", *answers_to_reports)


def learnt_before(path):
    """Write a checkpoint of an earlier process, an hour long."""
    server = PredictionServer(PredictParameters())
    now = time.time()
    for step in range(120):
        at = now - 30 * (120 - step)
        snapshot = Snapshot(at, UsageSample(1.0, 2e9), UsageSample(1.0, 2e9))
        server.train(at, series.snapshot_series(snapshot, {}, Reserved(0.0, 0.0)))
    assert checkpoint.save(path, Checkpoint(NODE, now - 30, server.export())) is None


@pytest.fixture
def host(tmp_path):
    made = PlainHost(tmp_path / "host")
    made.set_node(1000, 1 << 30)
    return made


def running(tmp_path, server, *more, **options):
    config = agent_process.kubeconfig(tmp_path / "kubeconfig", server.url)
    return agent_process.running(
        f"--node-name={NODE}", f"--kubeconfig={config}", f"--host-root={tmp_path}/host", f"--state-dir={tmp_path}",
        "--http-address=127.0.0.1", "--http-port=0", *more, **options,
    )  # fmt: skip


async def ended(process):
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(SECONDS_TO_END):
        _out, log = await process.communicate()
    return log.decode()


async def test_it_reports_and_on_sigterm_writes_its_checkpoint_and_ends_in_time(tmp_path, host):
    path = tmp_path / "prediction.checkpoint"
    learnt_before(path)
    before = checkpoint.load(path, NODE)
    async with apiserver.running() as server:
        scripted(server, node_metric(), apiserver.Answer(node_metric()))
        async with running(tmp_path, server) as process:
            async with asyncio.timeout(30):
                await server.until(lambda: server.asked("PUT"))
            status = server.asked("PUT")[0].document["status"]
            assert status["prediction"]["predictor"] == "n-sigma-v2"
            log = await ended(process)
            assert process.returncode == 0, log
    after = checkpoint.load(path, NODE)
    assert after.saved_seconds > before.saved_seconds
    assert after.models.keys == before.models.keys
    assert not path.with_name(f"{path.name}.tmp").exists()


async def test_a_restored_history_is_read_by_the_policy_of_the_node_metric_from_the_first_report_on(tmp_path, host):
    learnt_before(tmp_path / "prediction.checkpoint")
    policy = {"predictor": "percentile", "cpuPercentile": 90, "coldStartPeriodSeconds": 0}
    with_policy = {**node_metric(), "spec": {"predictPolicy": policy}}
    async with apiserver.running() as server:
        scripted(server, with_policy, apiserver.Answer(with_policy))
        async with running(tmp_path, server):
            async with asyncio.timeout(30):
                await server.until(lambda: server.asked("PUT"))
            prediction = server.asked("PUT")[0].document["status"]["prediction"]
    assert prediction["predictor"] == "percentile"
    assert policy.items() <= prediction["parameters"].items()


async def test_on_sigterm_it_ends_in_time_also_while_the_apiserver_does_not_answer(tmp_path, host):
    learnt_before(tmp_path / "prediction.checkpoint")
    async with apiserver.running() as server:
        scripted(server, node_metric(), apiserver.HANG)
        async with running(tmp_path, server) as process:
            async with asyncio.timeout(30):
                await server.until(lambda: server.asked("PUT"))
            log = await ended(process)
            assert process.returncode == 0, log
    assert checkpoint.load(tmp_path / "prediction.checkpoint", NODE).saved_seconds > time.time() - 30


async def test_an_agent_that_gets_sigkill_predicts_the_same_from_its_checkpoint_once_it_runs_again(tmp_path, host):
    path = tmp_path / "prediction.checkpoint"
    learnt_before(path)
    stored = path.read_bytes()
    reports = []
    async with apiserver.running() as server:
        scripted(server, node_metric(), apiserver.Answer(node_metric()))
        for number in (1, 2):
            async with running(tmp_path, server) as process:
                async with asyncio.timeout(30):
                    await server.until(lambda number=number: len(server.asked("PUT")) == number)
                process.send_signal(signal.SIGKILL)
                assert await process.wait() == -signal.SIGKILL
            reports.append(server.asked("PUT")[-1].document["status"]["prediction"])
    before, after = reports
    assert {**after, "time": before["time"]} == before
    began = dt.datetime.fromisoformat(before["since"]).timestamp()
    assert began < checkpoint.load(path, NODE).saved_seconds - 3000, "an hour of history, also after the kill"
    assert path.read_bytes() == stored


async def test_an_agent_that_was_frozen_reports_again_in_order(tmp_path, host):
    failure = apiserver.status(500, "InternalError", "etcd is away")  # so that the next report follows soon
    async with apiserver.running() as server, asyncio.timeout(60):
        scripted(server, node_metric(), failure, apiserver.Answer(node_metric()))
        async with running(tmp_path, server) as process:
            await server.until(lambda: server.asked("PUT"))
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(1.5)
            frozen = len(server.asked("PUT"))
            process.send_signal(signal.SIGCONT)
            await server.until(lambda: len(server.asked("PUT")) > frozen)
            times = [request.document["status"]["updateTime"] for request in server.asked("PUT")]
            assert sorted(set(times)) == times
            log = await ended(process)
            assert process.returncode == 0, log


async def test_the_annotation_of_the_node_metric_resets_the_history_once_over_restarts(tmp_path, host):
    path = tmp_path / "prediction.checkpoint"
    learnt_before(path)
    request = {"koordinator.sh/reset-prediction": "2026-11-21"}
    for has_forgotten in (True, False):
        async with apiserver.running() as server:
            scripted(server, node_metric(**request), apiserver.Answer(node_metric(**request)))
            async with running(tmp_path, server) as process:
                async with asyncio.timeout(30):
                    await server.until(lambda server=server: server.asked("PUT"))
                log = await ended(process)
        assert ("history reset by the annotation" in log) is has_forgotten
        stored = checkpoint.load(path, NODE)
        assert (stored.models.keys == (), stored.reset_mark) == (True, "2026-11-21")


ROOT = Path(__file__).parents[2]
RAISING = "class Raising:\n    def predict(self, load):\n        raise ValueError('boom')\n"


def metric_with(predictor):
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
    shown = metric_with(predictor)
    async with apiserver.running() as server:
        scripted(server, shown, apiserver.Answer(shown))
        path = os.pathsep.join([str(packages), str(ROOT)])
        environment = {**agent_process.CHART_ENVIRONMENT, "PYTHONPATH": path}
        async with running(tmp_path, server, environment=environment) as process:
            async with asyncio.timeout(30):
                await server.until(lambda: server.asked("PUT"))
            return server.asked("PUT")[0].document["status"], await ended(process)


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


def test_preview_lists_the_installed_ones(tmp_path):
    installed_package.install_example(tmp_path)
    command = [sys.executable, "-m", "koordlet", "preview", "--for", "3s", "--predictor"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for name, code in (("all", 0), ("v/other", 2)):
        done = subprocess.run(
            [*command, name], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
        )
        assert done.returncode == code, done.stderr
        assert "example/recent-peak" in (done.stderr if code else done.stdout)

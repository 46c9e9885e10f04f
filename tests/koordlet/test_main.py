"""The command line in the process of the test: what the agent serves while it runs, how it ends, its arguments."""

import asyncio
import concurrent.futures
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import threading
import time
import types
import urllib.error
import urllib.request

import prometheus_client
import psutil
import pytest
import yaml

from koordlet import __main__ as command
from koordlet import agent, preview
from koordlet.settings import ENV_PREFIX
from tests.fakes import agent_process, apiserver
from tests.host_trees.plain_files import PlainHost
from tests.koordlet.test_agent_process import NODE, NODE_METRICS, node_metric, scripted


class Interrupted(Exception):
    """A signal that would have ended the process."""


@pytest.fixture(autouse=True)
def _process_as_before(monkeypatch):
    """Undo what the program does to its process; a signal that it does not handle is an exception."""

    def interrupt(_number, _frame):
        raise Interrupted

    for name in [name for name in os.environ if name.startswith(f"{ENV_PREFIX}_")]:
        monkeypatch.delenv(name)
    handlers = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    prometheus_client.enable_created_metrics()
    gc.unfreeze()


@pytest.fixture
def arguments(tmp_path):
    PlainHost(tmp_path / "host").set_node(1000, 1 << 30)
    return [
        "run", f"--node-name={NODE}", f"--host-root={tmp_path}/host", f"--state-dir={tmp_path}",
        "--http-address=127.0.0.1", "--http-port=0", "--log-format=json",
    ]  # fmt: skip


def listening():
    return {each.laddr.port for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN}


def page(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class Cluster:
    """An apiserver in a thread of its own. After the first report it reads the pages of the agent, and then ends it."""

    def __init__(self, stop):
        self.url = concurrent.futures.Future()
        self.agent_ended = threading.Event()
        self.pages = {}
        self.port = 0
        self.frozen = 0
        self._stop = stop

    def run(self):
        asyncio.run(self._run())

    async def _run(self):
        async with apiserver.running() as server:
            scripted(server, node_metric(), apiserver.Answer(node_metric()))
            before = listening()
            self.url.set_result(server.url)
            try:
                async with asyncio.timeout(15):
                    await server.until(lambda: server.asked("PUT", f"{NODE_METRICS}/{NODE}/status"))
                    await asyncio.to_thread(self._look, listening() - before)
            finally:
                if not self.agent_ended.is_set():
                    os.kill(os.getpid(), self._stop)
                await asyncio.to_thread(self.agent_ended.wait, 15)

    def _look(self, ports):
        (self.port,) = ports
        while page(self.port, "/readyz")[0] != 200:
            assert not self.agent_ended.wait(0.02)
        self.pages = {path: page(self.port, path) for path in ("/healthz", "/readyz", "/metrics")}
        self.frozen = gc.get_freeze_count()


@contextlib.contextmanager
def cluster(stop):
    made = Cluster(stop)
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        done = thread.submit(made.run)
        try:
            yield made
        finally:
            made.agent_ended.set()
    done.result()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_agent_serves_probes_and_metrics_until_a_signal(arguments, tmp_path, monkeypatch, capsys, stop):
    monkeypatch.setattr(agent, "TICK_SECONDS", 0.05)
    with cluster(stop) as seen:
        config = agent_process.kubeconfig(tmp_path / "kubeconfig", seen.url.result(10))
        assert command.main([*arguments, f"--kubeconfig={config}"]) == 0
    assert {path: status for path, (status, _) in seen.pages.items()} == dict.fromkeys(seen.pages, 200)
    assert seen.pages["/readyz"][1] == "measuring and following the cluster\n"
    for series in ("process_resident_memory_bytes ", "python_info{", "python_gc_objects_collected_total{"):
        assert f"\n{series}" in seen.pages["/metrics"][1]
    assert seen.frozen > 10_000, "the objects of the start-up are outside of collections"
    assert seen.port not in listening()
    assert "http-endpoint" not in {thread.name for thread in threading.enumerate()}
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert f"report to NodeMetric {NODE}: written" in {line["message"] for line in lines}


def test_without_credentials_it_ends_with_exit_code_1_and_frees_its_port(arguments, capsys):
    before = listening()
    assert command.main([*arguments, "--kubeconfig=/missing/kubeconfig"]) == 1
    *_, last = map(json.loads, capsys.readouterr().err.splitlines())
    assert last["level"] == "ERROR"
    assert "/missing/kubeconfig" in last["message"]
    assert listening() == before


def test_with_a_taken_port_it_ends_with_exit_code_1(arguments, capsys):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert command.main([*arguments, f"--http-port={port}"]) == 1
    *_, last = map(json.loads, capsys.readouterr().err.splitlines())
    assert f"cannot listen on 127.0.0.1:{port}" in last["message"]


def test_a_preview_trains_while_it_measures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(preview, "LEAST_SECONDS", 1.0)
    monkeypatch.setattr(preview, "_TRAIN_SECONDS", 1e-9)
    at_once = types.SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=lambda _seconds: None)
    monkeypatch.setattr(preview, "time", at_once)
    PlainHost(tmp_path).set_node(1000, 1 << 30)
    assert command.main(["preview", "--for=1s", f"--host-root={tmp_path}"]) == 0
    status = yaml.safe_load(capsys.readouterr().out)["status"]
    assert status["prediction"]["prod"]["systemPeak"].keys() == {"cpu", "memory"}


@pytest.fixture
def previews(monkeypatch):
    """Return the arguments of each preview, which measures nothing, logs two lines and ends with exit code 7."""
    calls = []

    def show(chosen, seconds, predictor):
        calls.append((chosen.node_name, chosen.max_series, seconds, predictor))
        logging.getLogger("koordlet").info("not shown")
        logging.getLogger("koordlet").warning("shown")
        return 7

    monkeypatch.setattr(preview, "show", show)
    return calls


@pytest.mark.parametrize(
    ("arguments", "preview_arguments"),
    [
        (["--node-name=n1"], ("n1", 1500, 60.0, None)),
        (["--for=3s", "--max-series=100"], ("", 100, 3.0, None)),
        (["--for", "1m30s", "--predictor", "max"], ("", 1500, 90.0, "max")),
        ([f"--predictor={preview.ALL}"], ("", 1500, 60.0, preview.ALL)),
    ],
)
def test_a_preview_gets_its_settings_its_time_and_its_predictor(previews, capsys, arguments, preview_arguments):
    assert command.main(["preview", *arguments, "--log-format=json", "--log-level=warning"]) == 7
    assert previews == [preview_arguments]
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "shown"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["preview", "--for", "2999ms"], "2999ms is too short, want at least 3s"),
        (["preview", "--for", "soon"], "soon"),
        (["preview", "--predictor", "oracle"], "invalid choice: 'oracle'"),
        (["walk"], "invalid choice: 'walk'"),
        ([], "arguments are required: {run,preview}"),
    ],
)
def test_a_wrong_argument_is_named_and_the_exit_code_is_2(previews, capsys, arguments, problem):
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 2
    assert problem in capsys.readouterr().err
    assert previews == []

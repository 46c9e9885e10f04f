"""Tests of the real process over its socket, ended by a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer, Source

pytestmark = pytest.mark.slow

ANSWER = {"resultType": "vector", "result": [{"metric": {"node": "n1"}, "value": [1, "0.25"]}]}


@pytest.fixture
def prometheus() -> Iterator[Source]:
    body = json.dumps({"status": "success", "data": ANSWER}).encode()
    with metrics_source.answering(lambda _asked: Answer(body)) as source:
        yield source


def start(source: Source, folder: Path, *flags: str, provider: str = "Prometheus") -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")} | {
        "METRICS_PROVIDER_NAME": provider,
        "METRICS_PROVIDER_ADDRESS": source.address,
        "METRICS_PROVIDER_QUERIES": "openshift",
        "KUBE_CONFIG": str(folder / "none"),
        "LOG_LEVEL": "INFO",
    }
    command = [sys.executable, "-m", "scheduler_plugin.load_watcher", "--http-address=127.0.0.1", "--http-port=0"]
    command += [f"--database-file={folder / 'watcher.sqlite'}", *flags]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    for line in process.stderr:
        if "serving on 127.0.0.1:" in line:
            return int(line.split("127.0.0.1:")[1].split()[0])
    raise AssertionError("the process ended before it listened")


def metrics_of(port: int) -> bytes:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/watcher", timeout=5) as answer:
                return answer.read()  # type: ignore[no-any-return]
        except urllib.error.HTTPError as nothing_yet:
            nothing_yet.close()
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_b6_ends_on_sigterm_and_serves_at_once_after_kill_9(prometheus: Source, tmp_path: Path) -> None:
    with start(prometheus, tmp_path) as first:
        before = metrics_of(port_of(first))
        first.send_signal(signal.SIGKILL)
    with start(prometheus, tmp_path) as second:
        restored = metrics_of(port_of(second))
        second.send_signal(signal.SIGTERM)
        assert second.wait(timeout=20) == 0
        assert second.stderr is not None
        second.stderr.close()
    nodes = [json.loads(document)["data"]["NodeMetricsMap"]["n1"]["metrics"] for document in (before, restored)]
    assert [metric["value"] for metric in nodes[0]] == [25.0, 25.0, 25.0, 25.0]
    assert nodes[0] == nodes[1]


def test_b6_a_frozen_process_answers_again_and_renews_its_windows(prometheus: Source, tmp_path: Path) -> None:
    with start(prometheus, tmp_path, "--interval-seconds=1") as process:
        port = port_of(process)
        before = json.loads(metrics_of(port))["window"]["end"]
        process.send_signal(signal.SIGSTOP)
        asked = len(prometheus.asked)
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/watcher", timeout=2.0)
        assert len(prometheus.asked) <= asked + 1, "the one request that was on its way"
        process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + 30
        while json.loads(metrics_of(port))["window"]["end"] <= before + 1:
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        assert process.stderr is not None
        process.stderr.close()

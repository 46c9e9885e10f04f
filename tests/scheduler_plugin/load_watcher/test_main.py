"""The command line of the load watcher in the process of the test: logs, exit codes, and the end by a signal."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from collections.abc import Iterator

import pytest

from scheduler_plugin.load_watcher import __main__ as program
from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer
from tests.scheduler_plugin import running_program

QUARTER = {"resultType": "vector", "result": [{"metric": {"node": "n1"}, "value": [1, "0.25"]}]}
SERVE = ["--http-address=127.0.0.1", "--http-port=0", "--kubeconfig=/missing", "--log-format=json"]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(("KUBE", "METRICS_PROVIDER_", "KOORD_LOAD_WATCHER_", "LOG_LEVEL")):
            monkeypatch.delenv(name)
    with running_program.process_as_before():
        yield


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_until_a_signal_and_logs_in_the_chosen_format(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.dumps({"status": "success", "data": QUARTER}).encode()
    with metrics_source.answering(lambda _asked: Answer(body)) as source:
        monkeypatch.setenv("METRICS_PROVIDER_NAME", "Prometheus")
        monkeypatch.setenv("METRICS_PROVIDER_ADDRESS", source.address)

        def serves(ports: list[int]) -> bool:
            return '"n1"' in (running_program.page(ports[0], "/watcher") or "")

        with running_program.signalled(number, ports=1, once=serves):
            assert program.main(SERVE) == 0
    written = capsys.readouterr().err.splitlines()  # the source writes there too, where a connection is reset
    lines = [json.loads(line) for line in written if line.startswith("{")]
    assert lines[0]["message"].startswith("settings: ")
    assert [line["level"] for line in lines if line["message"].startswith("serving on 127.0.0.1:")] == ["INFO"]


def test_without_credentials_for_its_provider_it_ends_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(SERVE) == 1
    *_, last = map(json.loads, capsys.readouterr().err.splitlines())
    assert last["level"] == "ERROR"
    assert "/missing" in last["message"]


def test_a_wrong_provider_is_named_and_the_exit_code_is_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("METRICS_PROVIDER_NAME", "Prometeus")
    monkeypatch.setattr(sys, "argv", ["load_watcher"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(program.__file__, run_name="__main__")
    assert ended.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith("load_watcher: ")
    assert "provider 1: type is 'Prometeus', want one of NodeMetric, " in line

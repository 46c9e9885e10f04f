"""The command line of the scheduler plugin in the process of the test: logs, exit codes, and the end by a signal."""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_plugin import __main__ as program
from tests.fakes import agent_process
from tests.scheduler_plugin import running_program

SERVE = ["--extender-port=0", "--http-address=127.0.0.1", "--http-port=0", "--debug-port=0", "--log-format=json"]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(("KUBE", "KOORD_SCHEDULER_")):
            monkeypatch.delenv(name)
    with running_program.process_as_before():
        yield


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_until_a_signal_and_logs_in_the_chosen_format(
    number: signal.Signals, tmp_path: Path, closed_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    config = agent_process.kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{closed_port}")
    shown: list[str] = []

    def is_alive(ports: list[int]) -> bool:
        shown[:] = [text for port in ports if (text := running_program.page(port, "/healthz"))]
        return bool(shown)

    with running_program.signalled(number, ports=3, once=is_alive):
        assert program.main([*SERVE, f"--kubeconfig={config}"]) == 0
    assert "event loop last seen" in shown[0]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert lines[0]["message"].startswith("settings: ")
    assert [line["level"] for line in lines if line["message"].startswith("serving kube-scheduler on ")] == ["INFO"]


def test_with_a_taken_port_it_ends_with_exit_code_1(
    tmp_path: Path, closed_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    config = agent_process.kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{closed_port}")
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert program.main(["run", *SERVE, f"--extender-port={port}", f"--kubeconfig={config}"]) == 1
    *_, last = map(json.loads, capsys.readouterr().err.splitlines())
    assert f"cannot listen on 127.0.0.1:{port} for kube-scheduler" in last["message"]


@pytest.mark.parametrize("given", [["--config", "/missing"], ["--config=/missing", "--http-port=0"]])
def test_to_serve_is_the_default_command(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(given) == 2
    assert capsys.readouterr().err.startswith("scheduler_plugin: cannot read the configuration /missing: ")


def test_the_exit_code_is_that_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scheduler_plugin"])
    monkeypatch.setenv("KOORD_SCHEDULER_HTTP_PORT", "65536")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(program.__file__, run_name="__main__")
    assert ended.value.code == 2
    assert "65536" in capsys.readouterr().err

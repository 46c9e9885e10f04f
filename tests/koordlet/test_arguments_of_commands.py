"""Arguments of `koordlet preview` and `koordlet limiter`, and a command line without a command."""

from __future__ import annotations

import json
import logging

import pytest

from koordlet import __main__ as program
from koordlet.cli import preview


@pytest.fixture
def shown(monkeypatch):
    """Return the arguments of each preview, which measures nothing and ends with exit code 7."""
    calls = []

    def show(chosen, seconds, predictor):
        calls.append((chosen.node_name, seconds, predictor))
        return 7

    monkeypatch.setattr(preview, "show", show)
    return calls


def test_a_preview_measures_for_a_minute_by_default_and_its_exit_code_is_returned(shown):
    assert program.main(["preview", "--node-name=n1"]) == 7
    assert shown == [("n1", 60.0, None)]


@pytest.mark.parametrize(("duration", "seconds"), [("3s", 3.0), ("1m30s", 90.0), ("3500ms", 3.5)])
def test_its_duration_is_three_seconds_or_more(shown, duration, seconds):
    program.main(["preview", "--for", duration, "--predictor", "max"])
    assert shown == [("", seconds, "max")]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["preview", "--for", "2999ms"], "2999ms is too short, want at least 3s"),
        (["preview", "--for", "soon"], "soon"),
        (["preview", "--predictor", "oracle"], "invalid choice: 'oracle'"),
        ([], "arguments are required: {run,limiter,preview}"),
    ],
)
def test_a_wrong_argument_is_named_and_the_exit_code_is_2(shown, capsys, arguments, problem):
    with pytest.raises(SystemExit) as ended:
        program.main(arguments)
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err
    assert shown == []


@pytest.mark.parametrize("command", ["limiter", "preview"])
def test_a_command_logs_in_the_format_and_from_the_level_of_its_arguments(monkeypatch, capsys, command):
    def log_twice(*_given):
        logging.getLogger("koordlet").info("not shown")
        logging.getLogger("koordlet").warning("shown")
        return 0

    monkeypatch.setattr(program.limiter, "run", log_twice)
    monkeypatch.setattr(preview, "show", log_twice)
    assert program.main([command, "--log-format=json", "--log-level=warning"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "shown"


def test_the_limiter_runs_with_its_own_arguments_and_its_exit_code_is_returned(monkeypatch):
    given = []
    monkeypatch.setattr(program.limiter, "run", lambda chosen: given.append(chosen) or 5)
    assert program.main(["limiter", "--input-file=/in", "--cpu-folder=/cpu", "--memory-folder=/memory"]) == 5
    (chosen,) = given
    assert (chosen.input_file, chosen.cpu_folder, chosen.memory_folder) == ("/in", "/cpu", "/memory")

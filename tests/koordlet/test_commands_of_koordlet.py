"""The commands of koordlet: which settings and arguments each gets, and exit codes of wrong ones."""

from __future__ import annotations

import json
import logging

import pytest

from koordlet import __main__ as command
from koordlet.cli import preview
from koordlet.cli.limiter import program as limiter
from koordlet.cli.limiter.settings import ENV_PREFIX as LIMITER_PREFIX
from koordlet.settings import ENV_PREFIX


@pytest.fixture(autouse=True)
def _without_settings(monkeypatch):
    for prefix in (ENV_PREFIX, LIMITER_PREFIX):
        for name in ("LOG_FORMAT", "LOG_LEVEL", "INPUT_FILE", "MAX_SERIES", "NODE_NAME"):
            monkeypatch.delenv(f"{prefix}_{name}", raising=False)


@pytest.fixture
def limited(monkeypatch):
    """Return the settings with which the limiter ran; each run logs two lines and returns 7."""
    found = []

    def run(chosen):
        found.append(chosen)
        logging.getLogger("limiter").info("a line of information")
        logging.getLogger("limiter").warning("a warning")
        return 7

    monkeypatch.setattr(limiter, "run", run)
    return found


@pytest.fixture
def previewed(monkeypatch):
    found = []
    monkeypatch.setattr(preview, "show", lambda chosen, *given: found.append((chosen.max_series, *given)) or 3)
    return found


@pytest.mark.parametrize("arguments", [[], ["walk"], ["--node-name=n1"], ["limiter", "--node-name=n1"]])
def test_a_command_is_required_and_has_its_own_settings_only(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: koordlet")


def test_the_limiter_has_its_own_arguments_and_variables(limited, capsys, monkeypatch):
    monkeypatch.setenv(f"{LIMITER_PREFIX}_INPUT_FILE", "/input")
    monkeypatch.setenv(f"{ENV_PREFIX}_LOG_LEVEL", "debug")
    assert command.main(["limiter", "--status-file=/status", "--log-format=json", "--log-level=warning"]) == 7
    (chosen,) = limited
    assert (chosen.input_file, chosen.status_file) == ("/input", "/status")
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["level"], line["message"]) == ("WARNING", "a warning")


@pytest.mark.parametrize("arguments", [["limiter", "--input-file="], ["run", "--max-series=1"], ["run"]])
def test_each_wrong_setting_is_a_line_and_the_exit_code_is_2(arguments, limited, capsys):
    assert command.main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("koordlet: ")
    assert limited == []


def test_a_preview_gets_its_settings_its_time_and_its_predictor(previewed):
    arguments = ["preview", "--for=5m", "--max-series=100", f"--predictor={preview.ALL}"]
    assert command.main(arguments) == 3
    assert command.main(["preview"]) == 3
    assert previewed == [(100, 300.0, preview.ALL), (1500, 60.0, None)]


@pytest.mark.parametrize(("seconds", "is_enough"), [(0, True), (1, True), (-1, False)])
def test_a_preview_takes_at_least_some_seconds(previewed, capsys, seconds, is_enough):
    wanted = f"--for={preview.LEAST_SECONDS + seconds:g}s"
    if is_enough:
        assert command.main(["preview", wanted]) == 3
        assert previewed == [(1500, preview.LEAST_SECONDS + seconds, None)]
        return
    with pytest.raises(SystemExit) as ended:
        command.main(["preview", wanted])
    assert ended.value.code == 2
    assert "is too short, want at least" in capsys.readouterr().err

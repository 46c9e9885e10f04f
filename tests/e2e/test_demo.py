"""The steps of the first ten minutes, how the demo types them into a real shell, and Ctrl-C."""

import json
import os
import re
import shlex

import pytest
import yaml

from e2e.demo import __main__ as command
from e2e.demo import checks, workspace
from e2e.demo.checks import MIB, Amount
from e2e.demo.console import Console, DemoStopped
from e2e.demo.steps import STEPS, Line, Step
from e2e.demo.terminal import Terminal
from tests.koordctl.parsing import parsed

LINES = [line for step in STEPS for line in step.lines]


NAMES = ("koordlet", "manager", "scheduler-plugin", "koord-scheduler", "workload")
IMAGES = dict.fromkeys(NAMES, "koord-suite/x:dev-1")


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def console(tmp_path):
    clock = Clock()
    return Console(Terminal(tmp_path, os.environ), clock=clock, sleep=clock.sleep)


def step(*lines, within_seconds=30):
    return Step("Title", "Text.", within_seconds, lines)


@pytest.mark.parametrize("text", [line.text for line in LINES if line.text.startswith("koordctl ")])
def test_every_line_of_koordctl_has_a_command_and_flags_that_exist(text, monkeypatch):
    monkeypatch.setattr("sys.argv", ["koordctl"])
    words = shlex.split(text)[1:]
    assert parsed(words)


def test_every_name_is_found_before_it_is_used():
    known = set()
    for line in LINES:
        assert set(re.findall(r"\b[A-Z]{2,}\b", line.text)) <= known, line.text
        known |= {line.finds} - {""}
    assert known == {"NODE", "POD"}


def test_output_and_names_of_a_line_are_those_of_a_shell(console, capsys):
    text = "NAME USED\\nnode/worker-7 x\\nOF CPU: legend\\n| limit\\n\\ntail\\n"
    found = Line(f"printf '{text}'", shows="worker-[0-9]", finds="NODE")
    console.perform(step(found, Line("echo explained NODE >&2", shows="^explained worker-7$")))
    assert console.names == {"NODE": "worker-7"}
    out = capsys.readouterr().out
    assert "$ echo explained worker-7 >&2" in out
    assert "done in 0 s, of at most 30 s" in out


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        (Line("echo seen; exit 3"), r"exit code 3, want 0; it printed:\nseen"),
        (Line("true", code=1), "exit code 0, want 1"),
        (Line("false | cat"), "exit code 1, want 0"),
        (Line("echo seen", shows="wanted"), r"no output matches 'wanted'; it printed:\nseen"),
    ],
)
def test_another_result_stops_the_demo(console, line, lacks):
    with pytest.raises(DemoStopped, match=lacks):
        console.perform(step(line))


def test_a_line_is_repeated_until_it_has_its_result_or_the_time_is_over(console, tmp_path):
    counting = "echo x >> count; wc -l < count"
    console.perform(step(Line(counting, shows="^3$", repeats=True)))
    with pytest.raises(DemoStopped, match="no output matches"):
        console.perform(step(Line(counting, shows="never", repeats=True), within_seconds=5))
    assert (tmp_path / "count").read_text().count("x") == 3 + 6


def test_the_folder_has_the_files_that_the_lines_name(tmp_path):
    workspace.make(tmp_path, workspace.values(IMAGES), "registry/workload:1", Amount(1100, 12_000 * checks.MIB))
    named = {name for line in LINES for name in re.findall(r"\S+\.yaml|charts/\S+", line.text)}
    assert named
    assert [name for name in named if not (tmp_path / name).exists()] == []
    values = json.loads((tmp_path / "values.yaml").read_text())
    assert values["scheduler"]["plugin"]["image"] == {"repository": "koord-suite/x", "tag": "dev-1"}
    prod, mid = (
        yaml.safe_load((tmp_path / f"examples/{name}-deployment.yaml").read_text())["spec"]["template"]["spec"]
        for name in ("prod", "mid")
    )
    assert prod["containers"][0]["resources"]["requests"] == {"cpu": "1100m", "memory": str(12_000 * checks.MIB)}
    assert mid["containers"][0]["resources"]["limits"]["cpu"] == "60m"
    assert mid["priorityClassName"] == "koord-mid"


@pytest.mark.parametrize("failing", ["up", "run"])
def test_ctrl_c_reports_how_to_clean_up(monkeypatch, capsys, failing):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["demo"])
    if failing == "up":
        monkeypatch.setattr(command.cluster_command, "main", lambda argv: 130)
    else:
        monkeypatch.setattr(command, "run", interrupt)
    assert command.main() == 130
    assert "make cluster-down" in capsys.readouterr().err


def test_a_failed_check_reports_what_was_seen_and_how_to_clean_up(monkeypatch, capsys):
    def fail():
        raise DemoStopped("$ koordctl check: exit code 1, want 0")

    monkeypatch.setattr("sys.argv", ["demo"])
    monkeypatch.setattr(command.cluster_command, "main", lambda argv: 0)
    monkeypatch.setattr(command.loading, "load", fail)
    assert command.main() == 1
    errors = capsys.readouterr().err
    assert "the demo stopped: $ koordctl check: exit code 1" in errors
    assert "make cluster-down" in errors


@pytest.mark.parametrize(
    ("allocatable", "requested", "used"),
    [
        (Amount(2000, 24_000 * MIB), Amount(320, 600 * MIB), Amount(400, 2_000 * MIB)),
        (Amount(2000, 8_000 * MIB), Amount(320, 600 * MIB), Amount(2000, 5_000 * MIB)),
        (Amount(16000, 64_000 * MIB), Amount(320, 600 * MIB), Amount(400, 20_000 * MIB)),
    ],
)
def test_shop_requests_more_memory_than_the_node_uses_and_fits(allocatable, requested, used):
    request = checks.shop_request(allocatable, requested, used)
    assert request.memory_bytes > used.memory_bytes
    assert request.memory_bytes + requested.memory_bytes <= allocatable.memory_bytes
    assert request.cpu_millis + requested.cpu_millis <= allocatable.cpu_millis
    assert request.cpu_millis % 1 == 0
    assert request.memory_bytes % MIB == 0

"""What `koordctl reset-prediction` states before and after, and which answers agree."""

import argparse
import datetime as dt
import io

import pytest

from apiserver_client import session
from fleet.reading import Reader
from koordctl.changes import reset_prediction
from koordctl.cli import command
from tests.fakes import cluster
from tests.koordctl.parsing import parsed

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


class Terminal(io.StringIO):
    """Standard input that is a terminal."""

    def isatty(self):
        return True


async def reset(status, *words):
    async with cluster.running() as server:
        server.add("nodemetrics", {"metadata": {"name": "n1"}, **status})
        async with session.connect(server.connection(), user_agent="test/1") as api:
            answer = await reset_prediction._reset(Reader(api, NOW), parsed(["reset-prediction", "n1", *words]))
        return answer, server.writes


@pytest.mark.parametrize(
    ("status", "known"),
    [
        ({"status": {"prediction": {"predictor": "max", "warmPods": 3}}}, "3 pods with a history by max"),
        ({"status": {"prediction": {"predictor": "max"}}}, "0 pods with a history by max"),
        ({"status": {}}, "no prediction"),
        ({}, "no prediction"),
    ],
)
async def test_the_plan_states_the_history_that_is_lost(status, known):
    answer, writes = await reset(status, "--dry-run")
    first, second = answer.tail
    assert first == f"the agent of n1 forgets its history ({known}) and its live evaluation"
    assert "count with their full request" in second
    assert (answer.data.result, answer.data.effects, answer.exit_code) == ("would be reset", [first, second], 0)
    assert answer.tables[0].rows == [("n1", "would be reset")]
    assert answer.names == ["nodemetric/n1"]
    assert writes == []


@pytest.mark.parametrize(
    ("text", "is_agreed"),
    [
        ("y\n", True),
        (" YES \n", True),
        ("yes", True),
        ("n\n", False),
        ("\n", False),
        ("", False),
        ("yesterday\n", False),
    ],
)
def test_only_yes_is_agreed_and_the_plan_is_shown_before_the_question(monkeypatch, capsys, text, is_agreed):
    monkeypatch.setattr("sys.stdin", Terminal(text))
    assert command.is_agreed(argparse.Namespace(yes=False), ["one\x1b", "x" * 2_001]) is is_agreed
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"one\\x1b\n{'x' * 1_997}...\ncontinue? [y/N] "

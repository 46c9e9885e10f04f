"""Answers that are repeated on a terminal: each in the place of the one before, in colour where that is wanted."""

import io
import sys
import threading

import pytest

from koordctl.cli import output
from koordctl.cli.answer import Answer, Column, Table
from koordctl.cli.output import Style, Watched

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
"""What hides the cursor of a terminal, and what shows it."""


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    encoding = "utf-8"

    def isatty(self):
        return True


def drawn_on(monkeypatch):
    """Let standard output be a terminal; return it. No fixture, as pytest replaces the output after those."""
    found = Terminal()
    monkeypatch.setattr(sys, "stdout", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    return found


def answer(name, *notes):
    return Answer(None, [Table([Column("NAME")], [(name,)], ["error"])], notes=notes)


def test_each_answer_and_its_notes_are_drawn_at_once_and_nothing_in_between(monkeypatch):
    terminal = drawn_on(monkeypatch)
    before = threading.active_count()
    with Watched("table", headers=True, style=Style("never")) as watched:
        assert terminal.getvalue() == HIDE
        watched.show(answer("worker-1", "not read: pods ✘"))
        first = terminal.getvalue()
        assert "worker-1" in first
        assert "not read: pods ✘" in first
        assert threading.active_count() <= before
        watched.show(answer("worker-2"))
        second = terminal.getvalue().removeprefix(first)
        assert "worker-2" in second
        assert "\x1b[1A" in second  # up, to the answer before
        assert SHOW not in first + second
    assert SHOW in terminal.getvalue().removeprefix(first + second)


@pytest.mark.parametrize(("color", "is_red"), [("always", True), ("auto", True), ("never", False)])
def test_a_row_of_an_error_is_red_where_colour_is_wanted(monkeypatch, color, is_red):
    terminal = drawn_on(monkeypatch)
    with Watched("table", headers=True, style=Style(color)) as watched:
        watched.show(answer("worker-1"))
    assert ("\x1b[31mworker-1" in terminal.getvalue()) == is_red


def test_on_a_pipe_the_answers_follow_one_another(capsys):
    with Watched("table", headers=False, style=Style()) as watched:
        for name in ("worker-1", "worker-2"):
            watched.show(answer(name))
    assert capsys.readouterr().out == "worker-1\n\nworker-2\n\n"
    assert output.COLORS == ("auto", "always", "never")

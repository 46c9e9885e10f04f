"""Forms of an answer: escaped text, CSV, colours of a pipe and of a terminal, large tables, repeated answers."""

import csv
import io
import json
import re
import sys
import threading

import pytest
import yaml

from koordctl.cli import output
from koordctl.cli.answer import Answer, Column, Table, share
from koordctl.cli.output import RepeatedOutput, Style
from koordctl.cli.version_command import Version

pytestmark = pytest.mark.slow

DATA = Version("0.2.0", {"koordlet": "größe\x1b[2J"})
SIGNS = "✔✘\u2013█▓░·│"


class Terminal(io.StringIO):
    """A terminal of an encoding that keeps what is written to it."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def text_of(made, form="table", to=None, **options):
    out = to or io.StringIO()
    output.show(made, form, to=out, **options)
    return out.getvalue()


def of_rows(rows, *columns, styles=(), **more):
    return Answer(DATA, [Table(columns or [Column("A"), Column("B", right=True)], rows, styles)], **more)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a" * 10, "a" * 10),
        ("a" * 11, "a" * 7 + "..."),
        ("a" * 6 + "\x1b", "a" * 6 + "\\x1b"),  # 10 characters once it is escaped
        ("a" * 7 + "\x1b", "a" * 7 + "..."),
        ("\x1b" + "a" * 20, "\\x1baaa..."),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\u202e" * 3, "\\u202e\\..."),
        ("a" * 10 + "\n", "a" * 7 + "..."),
    ],
)
def test_a_text_is_escaped_and_cut_to_a_length(text, shown):
    assert output.printable(text, 10) == shown
    assert len(shown) <= 10


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("=1+1", "'=1+1"), ("+1", "'+1"), ("@a", "'@a"), ("-1", "'-1"), ("-", ""), ("--", "'--"), ("", ""),
        ("✘ a", "a"), (share(-73.25), "-73.25"),
        ("a=1", "a=1"), ("1-2", "1-2"), ('a"b,c', 'a"b,c'), ("a\x1b", "a\\x1b"),
    ],
)  # fmt: skip
def test_no_cell_of_csv_is_a_formula(cell, shown):
    (row,) = csv.reader(io.StringIO(text_of(of_rows([(cell, "x")]), "csv", headers=False)))
    assert row == [shown, "x"]


def test_csv_has_every_column_but_drawings_and_its_titles_where_they_are_wanted():
    columns = [Column("A"), Column("BAR", is_drawing=True), Column("C", wide=True)]
    made = of_rows([("a", "██", "c")], *columns)
    assert text_of(made, "csv") == "A,C\na,c\n"
    assert text_of(made, "csv", headers=False) == "a,c\n"
    assert text_of(Answer(DATA), "csv") == ""


def test_json_and_yaml_are_ascii_and_names_have_a_line_each():
    made = of_rows([("a", "1")], names=["node/a", "node/b\n"])
    for text, read in ((text_of(made, "json"), json.loads), (text_of(made, "yaml"), yaml.safe_load)):
        assert text.isascii()
        assert text.endswith("\n")
        assert list(read(text)) == ["apiVersion", "kind", "client", "parts"]
        assert read(text)["parts"] == {"koordlet": "größe\x1b[2J"}
    assert text_of(made, "name") == "node/a\nnode/b\\n\n"


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("title", ["A", ""])
def test_on_a_pipe_a_row_has_the_colour_of_its_severity(headers, title):
    rows, styles = [("one", "1"), ("two", "2"), ("three", "3")], ["error", "", "warning"]
    made = of_rows(rows, Column(title), Column(title), styles=styles)
    lines = text_of(made, headers=headers, style=Style("always")).splitlines()
    expected = ["\x1b[31mone    1\x1b[0m", "two    2", "\x1b[33mthree  3\x1b[0m"]
    assert lines == ([f"{title}      {title}"] if headers and title else []) + expected
    for color in ("auto", "never"):
        assert "\x1b" not in text_of(made, headers=headers, style=Style(color))
    assert "\x1b" not in text_of(of_rows(rows), style=Style("always"))


@pytest.mark.parametrize(
    ("color", "variables", "is_colored"),
    [
        ("auto", {}, True), ("auto", {"NO_COLOR": "1"}, False), ("auto", {"NO_COLOR": ""}, True),
        ("auto", {"TERM": "dumb"}, False), ("always", {}, True), ("always", {"NO_COLOR": "1"}, True),
        ("never", {}, False),
    ],
)  # fmt: skip
def test_on_a_terminal_a_row_has_a_colour_unless_none_is_wanted(color, variables, is_colored, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    rows, styles = [("one", "1"), ("two", "2")], ["warning", ""]
    text = text_of(of_rows(rows, styles=styles), to=Terminal(), style=Style(color))
    lines = text.splitlines()[1:]
    assert ["\x1b[33m" in line for line in lines] == [is_colored, False]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert [line.split() for line in plain.splitlines()] == [["A", "B"], ["one", "1"], ["two", "2"]]


@pytest.mark.parametrize("columns", [60, 40, 20, 16])
def test_no_word_of_a_cell_is_broken_in_a_narrow_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    row = ("worker-1234", "CalculatedFromReclaimable"[: columns - 4], "a message of words")
    lines = text_of(of_rows([row] * 2, Column("NODE"), Column("REASON"), Column("MESSAGE")), to=Terminal())
    assert max(map(len, lines.splitlines())) <= columns
    for word in " ".join(row).split():
        assert lines.split().count(word) >= 2


@pytest.mark.parametrize(("form", "titles"), [("table", ["A"]), ("wide", ["A", "B"])])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_wide_column_is_shown_in_the_wide_form_only(form, titles, is_terminal):
    made = of_rows([("a", "b")], Column("A"), Column("B", wide=True))
    to = Terminal() if is_terminal else io.StringIO()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text_of(made, form, to)).splitlines()
    assert [line.split() for line in lines] == [titles, [title.lower() for title in titles]]


@pytest.mark.parametrize(
    ("encoding", "locale", "is_ascii"),
    [
        ("utf-8", "", False),
        ("UTF8", "C.UTF-8", False),
        ("ascii", "", True),
        ("latin-1", "", True),
        ("utf-8", "C", True),
    ],
)
def test_signs_are_those_that_the_output_can_encode(encoding, locale, is_ascii, monkeypatch):
    monkeypatch.setenv("LC_ALL", locale)
    signs = of_rows([(SIGNS, "ö")])
    to = Terminal()
    to.encoding = encoding
    (row,) = text_of(signs, to=to).splitlines()[1:]
    found = row.split()
    assert found[0] == ("+x-#m:.|" if is_ascii else SIGNS)
    assert found[1] == ("\\xf6" if "ascii" in (encoding, locale.replace("C", "ascii")) else "ö")
    assert text_of(signs, style=Style(is_ascii=True)).splitlines()[1].split() == [
        "+x-#m:.|",
        "\\xf6" if locale == "C" else "ö",
    ]


def test_notes_are_on_standard_error_and_the_exit_code_is_that_of_the_answer(capsys):
    assert output.show(of_rows([("a", "1")], notes=["one\x1b", "n" * 2_001], exit_code=3), "name") == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == ["one\\x1b", "n" * 1_997 + "..."]


HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
"""What hides the cursor of a terminal, and what shows it."""


def drawn_on(monkeypatch):
    """Let standard output be a terminal; return it. No fixture, as pytest replaces the output after those."""
    found = Terminal()
    monkeypatch.setattr(sys, "stdout", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    return found


def of_text(name, *notes):
    return Answer(None, [Table([Column("NAME")], [(name,)], ["error"])], notes=notes)


def test_each_answer_and_its_notes_are_drawn_at_once_and_nothing_in_between(monkeypatch):
    terminal = drawn_on(monkeypatch)
    before = threading.active_count()
    with RepeatedOutput("table", headers=True, style=Style("never")) as watched:
        assert terminal.getvalue() == HIDE
        watched.show(of_text("worker-1", "not read: pods ✘"))
        first = terminal.getvalue()
        assert "worker-1" in first
        assert "not read: pods ✘" in first
        assert threading.active_count() <= before
        watched.show(of_text("worker-2"))
        second = terminal.getvalue().removeprefix(first)
        assert "worker-2" in second
        assert "\x1b[1A" in second  # up, to the of_text before
        assert SHOW not in first + second
    assert SHOW in terminal.getvalue().removeprefix(first + second)


def test_on_a_pipe_the_answers_follow_one_another(capsys):
    with RepeatedOutput("table", headers=False, style=Style()) as watched:
        for name in ("worker-1", "worker-2"):
            watched.show(of_text(name))
    assert capsys.readouterr().out == "worker-1\n\nworker-2\n\n"

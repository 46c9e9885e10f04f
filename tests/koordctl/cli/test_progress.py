"""The line of progress: on a terminal only, after half a second, never wider than the terminal."""

import io

import pytest

from koordctl.cli import command


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "20")
    return now


def _shown(clock, seconds, *, is_terminal):
    to = io.StringIO()
    to.isatty = lambda: is_terminal
    with command.ProgressLine(to) as shown:
        clock[0] += seconds
        shown.show("waiting for Reports, SampleTooOld")
    return to.getvalue()


@pytest.mark.parametrize(("seconds", "is_terminal"), [(0.4, True), (60.0, False)])
def test_a_short_read_and_a_pipe_show_nothing(clock, seconds, is_terminal):
    assert _shown(clock, seconds, is_terminal=is_terminal) == ""


def test_a_long_read_shows_a_line_that_is_removed_at_the_end(clock):
    assert _shown(clock, 0.5, is_terminal=True) == "\r\x1b[Kwaiting for Reports\r\x1b[K"

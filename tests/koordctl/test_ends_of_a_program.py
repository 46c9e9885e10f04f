"""How koordctl ends: with the code of its command, by a signal, at a closed pipe, without its libraries."""

import os
import runpy
import signal
import sys

import pytest

from koordctl import __main__ as koordctl


@pytest.fixture
def signals():
    """Restore the handlers of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def terminated(monkeypatch):
    """Let the command that runs get a SIGTERM."""
    monkeypatch.setattr(koordctl, "main", lambda: signal.raise_signal(signal.SIGTERM))


@pytest.mark.usefixtures("signals", "terminated")
@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_a_sigterm_interrupts_also_a_job_in_the_background(handler):
    signal.signal(signal.SIGINT, handler)
    with pytest.raises(KeyboardInterrupt):
        koordctl.program()


@pytest.mark.usefixtures("signals", "terminated")
def test_a_command_that_handles_ctrl_c_handles_a_sigterm_too():
    handled = []
    signal.signal(signal.SIGINT, lambda number, _frame: handled.append(number))
    koordctl.program()
    assert handled == [signal.SIGINT]


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize(("words", "code"), [(["help"], 0), (["statsu"], 2)])
def test_the_exit_code_is_that_of_the_command(words, code, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["koordctl", *words])
    monkeypatch.delitem(sys.modules, "koordctl.__main__")
    with pytest.raises(SystemExit) as raised:
        runpy.run_module("koordctl", run_name="__main__")
    assert raised.value.code == code


def test_a_reader_that_closed_the_pipe_ends_it_well_and_what_is_written_later_is_dropped(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1) as out:  # noqa: PTH123  # of a number
        monkeypatch.setattr(sys, "stdout", out)
        assert koordctl.main(["completion", "bash"]) == 0
        out.write("what is left at the exit of the interpreter\n")


def test_a_command_whose_libraries_are_missing_names_the_first_of_them(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "koordctl.backtest.command", None)
    assert koordctl.main(["backtest", "--prometheus", "http://127.0.0.1:1"]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("koordctl backtest is not in this image: it needs koordctl.backtest.command; ")

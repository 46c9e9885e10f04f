"""The command line as a whole: its list of commands, unknown ones, what is imported, interruption, its images."""

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from component_base.version import VERSION
from koordctl import __main__ as koordctl
from koordctl.cli import flags
from koordctl.commands import ROOT, SECTIONS

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
LEAVES = [
    ([command.name, inner.name], inner)
    for command in ROOT.commands.values()
    if isinstance(command, click.Group)
    for inner in command.commands.values()
] + [([command.name], command) for command in ROOT.commands.values() if not isinstance(command, click.Group)]
WITHOUT_A_CLUSTER = (
    ["config", "check"], ["config", "render"], ["scheduler", "check"], ["backtest"], ["convert"], ["completion"],
    ["export"],
)  # fmt: skip
"""Commands that read files, or a Prometheus, and never an apiserver."""


def modules_after(words):
    code = (
        "import sys\nfrom koordctl import __main__ as k\n"
        f"try: k.main({words.split()!r})\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=50, check=True
    )
    return set(ran.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(("words", "command"), LEAVES, ids=str)
def test_every_command_has_a_help_and_those_that_read_a_cluster_the_same_connection(words, command, capsys):
    assert koordctl.main([*words, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert command.help in shown
    assert set(flags.CONNECTION) & set(command.params) == (
        set() if words in WITHOUT_A_CLUSTER else set(flags.CONNECTION)
    )


def test_the_help_imports_nothing_of_the_commands():
    modules = modules_after("--help")
    assert not modules & {"rich", "yaml", "numpy", "pydantic", "lightkube", "httpx2", "asyncio", "msgspec", "fleet"}


@pytest.mark.parametrize("words", ["status", "top nodes", "explain node n", "explain pod a/b", "config diff -"])
def test_a_command_that_reads_a_cluster_imports_neither_numpy_nor_kopf(words):
    modules = modules_after(f"{words} --kubeconfig /does/not/exist")
    assert "fleet.reading" in modules
    assert not modules & {"numpy", "kopf", "rich"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["statsu"], "No such command 'statsu'. Did you mean 'status'?"),
        (["explain", "nod"], "No such command 'nod'. (Did you mean one of: 'node', 'pod'?)"),
        (["top", "nodes", "--outptu", "json"], "No such option '--outptu'. Did you mean '--output'?"),
    ],
)
def test_an_unknown_word_names_the_nearest_one(words, text, capsys):
    assert koordctl.main(words) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("words", ["explain", "top", "top nodes -o xml", "status --request-timeout 0", ""])
def test_wrong_usage_has_a_code_of_its_own(words, capsys):
    assert koordctl.main(words.split()) == 2
    shown = capsys.readouterr()
    assert (shown.out, "Usage: koordctl" in shown.err) == ("", True)


def test_the_help_and_the_page_have_the_same_sections(capsys):
    koordctl.main(["help"])
    shown = re.split(r"(?m)^([a-z ]+):$", capsys.readouterr().out)[1:]
    page = (
        (REPOSITORY / "docs" / "how-to" / "koordctl.md")
        .read_text("utf-8")
        .partition("## Commands")[2]
        .partition("All flags")[0]
    )
    tables = re.split(r"(?m)^\| ([a-z ]+) \|.*\n\|---", page)[1:]
    assert shown[::2] == tables[::2] == list(SECTIONS)
    for commands, lines, table in zip(SECTIONS.values(), shown[1::2], tables[1::2], strict=True):
        names = [command.name for command in commands]
        assert re.findall(r"(?m)^  (\S+)  +\S", lines) == names
        assert set(re.findall(r"`koordctl ([a-z-]+)", table)) == set(names)


def test_the_version_is_also_a_flag(capsys):
    assert koordctl.main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["koordctl", VERSION]


def test_the_usage_under_kubectl_names_kubectl(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-koord"])
    koordctl.main(["--help"])
    assert capsys.readouterr().out.startswith("Usage: kubectl koord ")


@pytest.mark.parametrize(
    ("words", "values", "text"),
    [
        (("uninstall", "--yes", "--timeout"), ("0", "-5", "nan", "100000"), "want a number of seconds"),
        (("gain", "--timeout"), ("0", "nan", "soon", ""), "want a number of seconds"),
        (("console", "--no-browser", "--port"), ("99999", "-1", "65536", "x"), "want a port from 0 to 65535"),
        (("estimate", "--cpu-price"), ("nan", "inf"), "want a number"),
        (("backtest", "trace", "--target"), ("nan",), "want a number"),
        *(((name, "-n"), ("a" * 64, "", "a/b", "A"), "at most 63") for name in ("status", "uninstall", "check")),
    ],
)
def test_values_of_flags_are_checked_before_anything_is_done(words, values, text, capsys):
    for value in values:
        assert koordctl.main([*words, value]) == 2
        assert text in capsys.readouterr().err


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
    assert shown.err.startswith("Error: koordctl backtest needs koordctl.backtest.command: pip install ")


PACKAGES = ("api_types", "apiserver_client", "component_base", "fleet", "koordctl", "manager")
WITHOUT_NUMPY = (
    "import sys; sys.modules['numpy'] = None; import runpy; runpy.run_module('koordctl', run_name='__main__')"
)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Make a folder with the packages of the image."""
    folder = tmp_path_factory.mktemp("image")
    for name in PACKAGES:
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def in_image(image, *words):
    command = [sys.executable, "-P", "-c", WITHOUT_NUMPY, *words]
    return subprocess.run(
        command, check=False, env={"PYTHONPATH": str(image)}, cwd=image, capture_output=True, text=True
    )


def test_a_command_that_needs_more_than_the_image_has_says_so(image):
    ran = in_image(image, "backtest", "--prometheus", "http://127.0.0.1:1", "whatever")
    assert ran.returncode == 3
    assert ran.stdout == ""
    assert ran.stderr.startswith("Error: koordctl backtest needs ")


def test_every_other_command_is_there(image):
    ran = in_image(image, "check", "--kubeconfig", "none")
    assert ran.returncode == 3
    assert "pip install" not in ran.stderr
    assert in_image(image, "--help").returncode == 0

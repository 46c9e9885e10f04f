"""The command line as a whole: its list of commands, unknown ones, what is imported, interruption."""

import argparse
import importlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from koordctl import __main__ as koordctl
from koordctl.cli import command as shared
from koordctl.commands import COMMANDS, SECTIONS, Group

ROOT = Path(__file__).parents[2]
LEAVES = [
    ((each.name, inner.name), inner)
    for each in COMMANDS
    if isinstance(each, Group)
    for inner in each.commands
] + [((each.name,), each) for each in COMMANDS if not isinstance(each, Group)]  # fmt: skip


WITHOUT_A_CLUSTER = {
    ("config", "check"), ("config", "render"), ("scheduler", "check"), ("backtest",), ("convert",), ("completion",),
    ("export",),
}  # fmt: skip
"""Commands that read files, or a Prometheus, and never an apiserver."""


def flags_of(add_arguments):
    """Return each flag with all that a user notices of it."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    actions = {each.option_strings[-1]: each for each in parser._actions if each.option_strings}
    return {
        flag: (tuple(each.option_strings), each.dest, each.default, each.metavar, each.help, each.type)
        for flag, each in actions.items()
    }


def modules_after(words):
    code = (
        "import sys\nfrom koordctl import __main__ as k\n"
        f"try: k.main({words.split()!r})\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=50, check=True)
    return set(ran.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "command"), LEAVES, ids=lambda given: " ".join(given) if given and isinstance(given[0], str) else ""
)
def test_every_command_has_a_module_and_a_help(words, command, capsys):
    module = importlib.import_module(command.module)
    assert callable(module.add_arguments)
    assert callable(module.run)
    with pytest.raises(SystemExit, match="0"):
        koordctl.main([*words, "--help"])
    assert command.help[1:] in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("words", "command"), LEAVES, ids=lambda given: given[0] if isinstance(given[0], str) else "")
def test_every_command_that_reads_a_cluster_has_the_same_connection_flags(words, command):
    wanted = flags_of(shared.add_connection_arguments)
    assert {"--kubeconfig", "--context", "--request-timeout", "--as", "--as-group"} == wanted.keys()
    found = flags_of(importlib.import_module(command.module).add_arguments)
    found = {flag: each for flag, each in found.items() if flag in wanted}
    assert found == ({} if words in WITHOUT_A_CLUSTER else wanted)


def test_the_help_imports_nothing_of_the_commands():
    found = modules_after("--help")
    assert not found & {"rich", "yaml", "numpy", "pydantic", "lightkube", "httpx2", "asyncio", "msgspec", "fleet"}


@pytest.mark.parametrize("words", ["status", "top nodes", "explain node n", "explain pod a/b", "config diff -"])
def test_a_command_that_reads_a_cluster_imports_neither_numpy_nor_kopf(words):
    found = modules_after(f"{words} --kubeconfig /does/not/exist")
    assert "fleet.reading" in found
    assert not found & {"numpy", "kopf", "rich"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["statsu"], "unknown command 'statsu'; did you mean status?"),
        (["explain", "nod"], "unknown command 'nod'; did you mean node or pod?"),
        (["xyz"], "unknown command 'xyz'; want one of status, top, gain, "),
    ],
)
def test_an_unknown_command_names_the_nearest_one(words, text, capsys):
    assert koordctl.main(words) == 2
    assert capsys.readouterr().err.startswith(text)


@pytest.mark.parametrize("words", ["explain", "top", "top nodes -o xml", "status --request-timeout 0"])
def test_wrong_usage_has_a_code_of_its_own(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        koordctl.main(words.split())


def test_without_a_command_the_help_is_printed_as_wrong_usage(capsys):
    assert koordctl.main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "top nodes" in shown.err
    assert koordctl.main(["help"]) == 0
    assert capsys.readouterr().out == shown.err


def test_the_help_and_the_page_have_the_same_sections(capsys):
    koordctl.main(["help"])
    shown = re.split(r"(?m)^  ([a-z ]+):$", capsys.readouterr().out)[1:]
    page = (
        (ROOT / "docs" / "how-to" / "koordctl.md")
        .read_text("utf-8")
        .partition("## Commands")[2]
        .partition("All flags")[0]
    )
    tables = re.split(r"(?m)^\| ([a-z ]+) \|.*\n\|---", page)[1:]
    assert shown[::2] == tables[::2] == list(SECTIONS)
    for commands, lines, table in zip(SECTIONS.values(), shown[1::2], tables[1::2], strict=True):
        names = [each.name for each in commands]
        assert re.findall(r"(?m)^    (\S+)", lines) == names
        assert set(re.findall(r"`koordctl ([a-z-]+)", table)) == set(names)


def test_the_version_is_also_a_flag(capsys):
    assert koordctl.main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["koordctl", importlib.metadata.version("koord-suite")]


def test_the_usage_under_kubectl_names_kubectl(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-koord"])
    with pytest.raises(SystemExit):
        koordctl.main(["--help"])
    assert capsys.readouterr().out.startswith("usage: kubectl koord ")


def test_a_reader_that_closes_the_pipe_is_no_error():
    code = "import sys; from koordctl.__main__ import main; sys.exit(main(['completion', 'bash']))"
    pipe = f'{{ {sys.executable} -c "{code}"; echo $? >&2; }} | true'
    ran = subprocess.run(["bash", "-c", pipe], cwd=ROOT, capture_output=True, text=True, timeout=50, check=True)
    assert ran.stderr.split() in (["0"], [])


@pytest.mark.parametrize(
    ("words", "values", "wanted"),
    [
        (("uninstall", "--yes", "--timeout"), ("0", "-5", "nan", "100000"), "want a number of seconds"),
        (("gain", "--timeout"), ("0", "nan", "soon", ""), "want a number of seconds"),
        (("console", "--no-browser", "--port"), ("99999", "-1", "65536", "x"), "want a port from 0 to 65535"),
        *(((name, "-n"), ("a" * 64, "", "a/b", "A"), "at most 63") for name in ("status", "uninstall", "check")),
    ],
)
def test_values_of_flags_are_checked_before_anything_is_done(words, values, wanted, capsys):
    for value in values:
        with pytest.raises(SystemExit) as raised:
            koordctl.main([*words, value])
        assert raised.value.code == 2
        assert wanted in capsys.readouterr().err

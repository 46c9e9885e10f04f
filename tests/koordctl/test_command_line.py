"""The command line as a whole: its list of commands, unknown ones, what is imported, interruption."""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from koordctl import __main__ as koordctl
from koordctl.cli import command as cli_command
from koordctl.commands import COMMANDS, Command, Group

ROOT = Path(__file__).parents[2]
LEAVES = [
    ((each.name, inner.name), inner)
    for each in COMMANDS
    if isinstance(each, Group)
    for inner in each.commands
] + [((each.name,), each) for each in COMMANDS if not isinstance(each, Group)]  # fmt: skip


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


@pytest.mark.parametrize(
    ("words", "command"), LEAVES, ids=lambda given: "" if isinstance(given, Command) else " ".join(given)
)
def test_a_command_that_connects_has_all_flags_of_the_connection(words, command):
    parser, common = argparse.ArgumentParser(), argparse.ArgumentParser()
    importlib.import_module(command.module).add_arguments(parser)
    cli_command.add_connection_arguments(common)
    flags, wanted = parser._option_string_actions.keys(), common._option_string_actions.keys()
    assert "--kubeconfig" not in flags or not wanted - flags


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
        (["xyz"], "unknown command 'xyz'; want one of status, check, top, "),
    ],
)
def test_an_unknown_command_names_the_nearest_one(words, text, capsys):
    assert koordctl.main(words) == 2
    assert capsys.readouterr().err.startswith(text)


@pytest.mark.parametrize("words", ["", "explain", "top", "top nodes -o xml", "status --request-timeout 0"])
def test_wrong_usage_has_a_code_of_its_own(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        koordctl.main(words.split())


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

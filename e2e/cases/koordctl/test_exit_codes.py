"""Every command of koordctl on a real API server: exit codes, formats, the two outputs, terminals, interruption."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import itertools
import json
import os
import pty
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml

from e2e.support import koordctl_rows
from e2e.support.koordctl_rows import ROWS, WRONG, Ended, Row
from e2e.support.lone_manager import LoneManager
from e2e.support.names import STATUS_ANNOTATION
from koordctl import __main__ as koordctl
from koordctl.commands import ROOT
from tools.localcluster import content_cache
from tools.localcluster.apiserver_requests import NODE_METRICS

SERVES = "console"
TRACES = content_cache.REPOSITORY / "benchmarks" / "backtest" / "data"
SCHEMAS = content_cache.REPOSITORY / "docs" / "reference" / "koordctl"
READS = [row for row in ROWS if row.reads]
VERSIONS = ("koordctl/v1", "v1")
"""Of the documents of koordctl; a rendered configuration is a ConfigMap."""
NO_CLUSTER_IS_FINE = ("version",)
"""Its answer has the version of the program alone then, and a note."""
TABLES = ("status", "check", "top", "explain", "config", "gain", "my", "version")
"""First words of commands with tables that are as wide as the terminal."""
ROW_OF_A_TABLE = re.compile(r"^(?!  do |OF CPU: ).*\S  +\S")
"""A sentence, a command to type and a legend are as long as they are; a row has two spaces inside."""
PROGRESS = re.compile(r"\r\x1b\[K(?:reading \S+ \d+)?")
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


Call = Callable[..., Ended]


def commands() -> dict[str, click.Command]:
    """Return each command of the program by its words."""
    leaves: dict[str, click.Command] = {}
    for name, command in ROOT.commands.items():
        if isinstance(command, click.Group):
            leaves |= {f"{name} {inner}": leaf for inner, leaf in command.commands.items()}
        else:
            leaves[name] = command
    return leaves


def command_of(line: str) -> str:
    """Return the words of the command of a line."""
    return next(name for name in sorted(commands(), key=len, reverse=True) if f"{line} ".startswith(f"{name} "))


def formats(line: str) -> Sequence[str]:
    """Return the formats of a command, which are those of its flag --output; none without it."""
    command = commands()[command_of(line)]
    types = [param.type for param in command.get_params(click.Context(command)) if param.name == "output"]
    return tuple(map(str, types[0].choices)) if types and isinstance(types[0], click.Choice) else ()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of the files of the command lines, which is the current one."""
    made = tmp_path_factory.mktemp("koordctl")
    koordctl_rows.write_files(made)
    few = ("--machines", "1", "--pods", "2", "--interval", "12h", "--workers", "1", "--output", "json")
    with contextlib.chdir(made):
        with (made / "short.json").open("w") as out, contextlib.redirect_stdout(out):
            koordctl.main(["backtest", "--traces", str(TRACES), *few])
        yield made


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneManager]:
    with koordctl_rows.running() as made:
        yield made


@pytest.fixture(scope="module")
def words_of(folder: Path, lone: LoneManager) -> Callable[..., list[str]]:
    """Return a function that makes the words of a line, with the cluster that it reads."""
    numbers = itertools.count()

    def made(row: Row, *more: str, kubeconfig: object = lone.plane.kubeconfig) -> list[str]:
        line = row.line.replace("BUNDLE", f"{folder}/bundle-{next(numbers)}.tgz")
        return [*shlex.split(line), *more, *([f"--kubeconfig={kubeconfig}"] if row.reads else [])]

    return made


def _file() -> io.TextIOWrapper:
    """Return a file in memory that takes text and, as stdout of a process, bytes."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")


def _text(file: io.TextIOWrapper) -> str:
    file.flush()
    file.seek(0)
    return file.read()


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that runs words in this process, as in a pipe."""
    monkeypatch.setattr("sys.argv", ["koordctl"])
    monkeypatch.setattr("sys.stdin", io.StringIO())

    def run(words: Sequence[str]) -> Ended:
        out, err = _file(), _file()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = koordctl.main(words)
        ended = Ended(code, _text(out), _text(err))
        assert "Traceback" not in ended.err
        return ended

    return run


def test_every_command_of_the_program_has_its_rows() -> None:
    assert {command_of(row.line) for row in ROWS} == set(commands()) - {SERVES}
    assert {command_of(line) for line in WRONG} == set(commands())
    assert {row.code for row in ROWS} == {0, 1}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.line)
def test_the_exit_code_and_the_outputs_are_the_same_for_every_format(
    row: Row, words_of: Callable[..., list[str]], call: Call
) -> None:
    plain = call(words_of(row))
    assert plain.code == row.code, plain
    assert plain.out or plain.err
    assert "\x1b" not in plain.out + plain.err
    for each in formats(row.line):
        ended = call(words_of(row, "--output", each))
        assert ended.code == row.code, (each, ended)
        assert bool(ended.out.strip()) is bool(plain.out.strip()) or each in ("name", "csv"), (each, ended)
        if ended.out:
            _parse(each, ended.out)


def _parse(form: str, text: str) -> None:
    """Check that the output is of its format."""
    match form:
        case "json":
            found = json.loads(text)
            assert found.get("apiVersion") in (*VERSIONS, None)
            if found.get("apiVersion") == VERSIONS[0]:
                jsonschema.validate(found, json.loads((SCHEMAS / f"{found['kind']}.json").read_text("utf-8")))
        case "yaml":
            assert yaml.safe_load(text)["apiVersion"] in VERSIONS
        case "csv":
            assert len({len(line) for line in csv.reader(io.StringIO(text))}) == 1, text
        case "name":
            assert all("/" in line for line in text.splitlines()), text
        case "html":
            assert text.startswith("<!doctype html>")
        case _:
            assert text.splitlines()


@pytest.mark.parametrize("line", WRONG)
def test_wrong_usage_has_code_2_and_names_what_is_wrong(line: str, folder: Path, call: Call) -> None:
    for more in ([], ["--no-such-flag"]):
        ended = call([*shlex.split(line), *more])
        assert (ended.code, ended.out) == (2, ""), ended
        assert ended.err


@pytest.mark.parametrize("row", READS, ids=lambda row: row.line)
def test_a_cluster_that_does_not_answer_has_code_3_for_every_format(
    row: Row, words_of: Callable[..., list[str]], lone: LoneManager, call: Call, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    port = lone.plane.places.addresses.apiserver_port
    away.write_text(lone.plane.kubeconfig.read_text().replace(f":{port}", ":1"))
    wanted = 0 if row.line in NO_CLUSTER_IS_FINE else 3
    for kubeconfig, named in ((away, "127.0.0.1:1"), (tmp_path / "absent", "absent")):
        for more in [["--output", each] for each in formats(row.line)] or [[]]:
            ended = call(words_of(row, *more, kubeconfig=kubeconfig))
            assert ended.code == wanted, ended
            assert named in ended.err
            assert wanted == 0 or ended.out == ""


def started(words: Sequence[str], **variables: str) -> subprocess.Popen[str]:
    """Start the program with both outputs in pipes."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "PYTHONPATH": str(content_cache.REPOSITORY), **variables}
    return subprocess.Popen([sys.executable, "-m", "koordctl", *words], env=environment, text=True, **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("row", [row for row in READS if row.code == 0], ids=lambda row: row.line)
def test_ctrl_c_while_the_cluster_is_silent_has_code_130(
    row: Row, words_of: Callable[..., list[str]], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)
        cluster = {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        contexts = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
        document = {"clusters": [{"name": "c", "cluster": cluster}], "contexts": contexts, "current-context": "x"}
        file = tmp_path / "silent"
        file.write_text(yaml.safe_dump({**document, "users": [{"name": "u", "user": {"token": "t"}}]}))
        with started(words_of(row, kubeconfig=file)) as program:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                program.send_signal(signal.SIGINT)
                out, err = program.communicate(timeout=120)
        assert (program.returncode, out) == (130, ""), err
        assert "Traceback" not in err


def test_the_console_serves_until_ctrl_c(lone: LoneManager, folder: Path) -> None:
    words = ["console", "--no-browser", f"--kubeconfig={lone.plane.kubeconfig}"]
    with started(words, PYTHONUNBUFFERED="1") as program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("http://127.0.0.1:")
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=60)
    assert program.returncode == 0, err


def forked(words: Sequence[str], to: int, variables: Mapping[str, str | None], encoding: str = "utf-8") -> int:
    """Start the program in a fork of this process, which has imported all of it; return the process."""
    child = os.fork()
    if child:
        return child
    try:
        os.login_tty(to)
        for name, value in variables.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        errors = "strict" if encoding == "utf-8" else "backslashreplace"
        sys.argv = ["koordctl"]
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(0),
            os.fdopen(1, "w", encoding=encoding),
            os.fdopen(2, "w", encoding=encoding, errors=errors),
        )
        code = koordctl.main(words)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    finally:
        os._exit(99)


def on_terminal(
    words: Sequence[str], columns: int, *, typed: str = "", encoding: str = "utf-8", **variables: str
) -> Ended:
    """Run the program on a terminal of its own; both outputs are on it."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    os.write(screen, typed.encode())
    settings = {"COLUMNS": str(columns), "LINES": None, "NO_COLOR": None, "TERM": "xterm-256color", **variables}
    child = forked(words, terminal, settings, encoding)
    os.close(terminal)
    shown, end = b"", time.monotonic() + 120
    while time.monotonic() < end and select.select([screen], [], [], end - time.monotonic())[0]:
        try:
            shown += os.read(screen, 65_536)
        except OSError:  # the other end is closed
            break
    os.close(screen)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(code, shown.decode().replace("\r\n", "\n"), "")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.line)
def test_on_a_terminal_no_table_is_wider_than_it_and_no_color_holds(
    row: Row, words_of: Callable[..., list[str]]
) -> None:
    for columns in (80, 120):
        ended = on_terminal(words_of(row), columns, NO_COLOR="1")
        assert ended.code == row.code, ended
        assert "Traceback" not in ended.out
        shown = PROGRESS.sub("", ended.out)
        assert "\x1b" not in shown
        if row.line.split()[0] in TABLES:
            wide = [line for line in shown.splitlines() if len(line) > columns and ROW_OF_A_TABLE.search(line)]
            assert wide == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.line)
def test_where_the_output_is_ascii_nothing_else_is_written(row: Row, words_of: Callable[..., list[str]]) -> None:
    ended = on_terminal(words_of(row), 100, encoding="ascii")
    assert ended.code == row.code, ended
    assert ended.out.isascii()


def test_the_locale_chooses_ascii(words_of: Callable[..., list[str]]) -> None:
    row = next(row for row in ROWS if row.line == "check")
    with started(words_of(row), LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0") as program:
        out, err = program.communicate(timeout=120)
    assert program.returncode == row.code, err
    assert "x failed" in out
    assert (out + err).isascii()


def test_colour_is_on_a_terminal_only(words_of: Callable[..., list[str]], call: Call) -> None:
    row = next(row for row in ROWS if row.line == "check")
    assert "\x1b[31m" in on_terminal(words_of(row), 120).out
    assert "\x1b" not in call(words_of(row)).out


@pytest.mark.parametrize("line", ["reset-prediction n1", "uninstall"])
def test_a_change_is_asked_for_on_a_terminal_and_anything_but_yes_has_code_1(
    line: str, words_of: Callable[..., list[str]], lone: LoneManager
) -> None:
    before = _written(lone)
    ended = on_terminal(words_of(Row(line, 1, 1, 3)), 100, typed="n\n")
    assert ended.code == 1, ended
    assert "continue? [y/N]" in ended.out
    assert "not changed" in ended.out
    assert _written(lone) == before


def _written(lone: LoneManager) -> list[dict[str, Any]]:
    """Return the nodes without what the manager renews by itself, and the annotations of their NodeMetrics."""
    nodes = [lone.node(name) for name in koordctl_rows.NODES]
    for each in nodes:
        annotations = each["metadata"].get("annotations", {})
        if STATUS_ANNOTATION in annotations:
            annotations[STATUS_ANNOTATION] = "renewed"
        each["metadata"] |= {"managedFields": [], "resourceVersion": ""}
    metrics = [lone.api.send("GET", f"{NODE_METRICS}/{name}") for name in koordctl_rows.NODES]
    return [*nodes, *(each["metadata"].get("annotations", {}) for each in metrics)]

"""The limiter's program in the process of the test, on trees of plain files: its rounds, its end, what it leaves."""

import contextlib
import errno
import faulthandler
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from koordlet import __main__ as command
from koordlet.cli.limiter import groups, program
from koordlet.cli.limiter.groups import Groups, NoGroups
from koordlet.cli.limiter.limiter import Limiter
from tests.koordlet.cli.limiter.test_limiter import MIB, A, Tree

STOP = (signal.SIGTERM, signal.SIGINT)
LIMITED = {"cpu.shares": "512", "cpu.cfs_quota_us": "50000", "memory.limit_in_bytes": str(64 * MIB)}
OF_THE_KUBELET = {"cpu.shares": "2", "cpu.cfs_quota_us": "-1", "memory.limit_in_bytes": "-1"}
HANGING = """
import sys
from koordlet.cli.limiter import program, settings
program._STUCK_SECONDS = 0.2
program.run(settings.LimiterSettings(**dict(each.split("=") for each in sys.argv[1:])))
"""


class Interrupted(Exception):
    """A signal that would have ended the process."""


@pytest.fixture(autouse=True)
def _process_as_before():
    """Undo what the program does to its process, whatever it does; a signal that it does not block is an exception."""

    def interrupt(_number, _frame):
        raise Interrupted

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    handlers = {number: signal.signal(number, interrupt) for number in STOP}
    yield
    faulthandler.cancel_dump_traceback_later()
    with contextlib.suppress(Interrupted):
        while set(STOP) & signal.sigpending():
            signal.sigtimedwait(STOP, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.fixture
def stop_in_round(monkeypatch):
    """Return a function that lets a signal arrive in the middle of a round, and gives the rounds that have run."""
    monkeypatch.setattr(program, "ROUND_SECONDS", 0.001)
    one_round = Limiter.round
    seen = []

    def in_round(number, stop=signal.SIGTERM, look=lambda: None):
        def counted(limiter, *at):
            one_round(limiter, *at)
            seen.append(look())
            assert len(seen) <= number, "it goes on after the signal"
            if len(seen) == number:
                signal.raise_signal(stop)

        monkeypatch.setattr(Limiter, "round", counted)
        return seen

    return in_round


def arguments(tree, *more):
    folders = [f"--{each}-folder={tree.folder}" for each in ("cpu", "memory")]
    return ["limiter", f"--input-file={tree.input}", *folders, *more]


def limited(tree, pod):
    return {name: value for name, value in tree.values(pod).items() if name in LIMITED}


def descriptors():
    return set(Path("/proc/self/fd").iterdir())


def threads():
    return set(Path("/proc/self/task").iterdir())


def until(true):
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("stop", STOP)
def test_it_limits_in_every_round_until_a_signal_and_then_restores(tree, stop_in_round, tmp_path, stop):
    status = tmp_path / "status"
    pod = tree.pod(A)
    tree.order(a=(500, 64 * MIB))
    open_before, threads_before = descriptors(), threads()
    shown = stop_in_round(3, stop, lambda: limited(tree, pod))
    assert command.main(arguments(tree, f"--status-file={status}")) == 0
    assert shown == [LIMITED] * 3
    assert limited(tree, pod) == OF_THE_KUBELET
    (problem,) = json.loads(status.read_text())["problems"].items()
    assert problem[0] == str(tree.input), "the file is of 1970"
    assert json.loads(status.read_text())["limited"] == 1
    assert json.loads((tmp_path / "status.limited").read_text()) == []
    assert descriptors() == open_before
    until(lambda: threads() == threads_before)  # the thread that ends a process whose round hangs


def test_a_folder_without_best_effort_pods_ends_it_with_exit_code_1(tree, tmp_path, capsys):
    folder = tmp_path / "plain" / "besteffort"
    folder.mkdir(parents=True)
    assert command.main(arguments(tree, f"--memory-folder={folder}", "--log-format=json")) == 1
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert line["level"] == "ERROR"
    assert str(folder) in line["message"]


def test_a_folder_that_is_no_cgroup_is_not_left_open(tmp_path):
    folder = tmp_path / "besteffort"
    folder.mkdir()
    before = descriptors()
    with pytest.raises(NoGroups, match=r"has none of cpu.weight, cpu.shares"):
        Groups(folder, groups.CPU)
    assert descriptors() == before


def test_a_round_that_hangs_ends_the_process_and_shows_where(tree, tmp_path):
    status = tmp_path / "status"
    os.mkfifo(f"{status}.new")  # opening it for writing waits for a reader
    tree.order()
    given = [f"input_file={tree.input}", f"cpu_folder={tree.folder}", f"memory_folder={tree.folder}"]
    run = subprocess.run(
        [sys.executable, "-c", HANGING, *given, f"status_file={status}"],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "in _write_status" in run.stderr


@pytest.mark.parametrize(
    ("file", "number", "is_in_use"),
    [
        ("memory.limit_in_bytes", errno.EBUSY, True),
        ("memory.limit_in_bytes", errno.EINVAL, False),
        ("cpu.shares", errno.EBUSY, False),
    ],
)
def test_only_memory_that_the_kernel_cannot_free_is_compared_again_soon(tree, monkeypatch, file, number, is_in_use):
    write = os.write

    def refuse(descriptor, content):
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == file:
            raise OSError(number, os.strerror(number))
        return write(descriptor, content)

    tree.pod(A)
    tree.order(a=(500, 64 * MIB))
    monkeypatch.setattr(os, "write", refuse)
    (problem,) = tree.round().items()
    assert problem[0] == f"{file.partition('.')[0]} of pod {A}"
    assert f"the kernel refuses '{LIMITED[file]}': {os.strerror(number)}" in problem[1]
    assert ("compared again every second" in problem[1]) is is_in_use


def test_a_pod_that_ends_while_it_is_written_is_no_problem_and_not_counted(tree, caplog):
    caplog.set_level(logging.INFO)
    (tree.folder / tree.name(A)).mkdir()  # listed, and its files are gone
    tree.order(a=(500, 64 * MIB))
    assert tree.round() == {}
    assert tree.limiter.limited == 0
    assert caplog.records == []


def test_a_pod_that_ends_during_the_restoration_is_not_kept_in_the_record(tree):
    pod = tree.pod(A)
    tree.order(a=(500, 64 * MIB))
    tree.round()
    assert json.loads(tree.input.with_name("limited").read_text()) == [A]
    for file in pod.iterdir():
        file.unlink()
    tree.limiter.restore()
    assert json.loads(tree.input.with_name("limited").read_text()) == []


def test_a_status_that_cannot_be_written_does_not_end_it(tree, stop_in_round, tmp_path):
    tree.order()
    rounds = stop_in_round(2)
    assert command.main(arguments(tree, f"--status-file={tmp_path}/missing/status")) == 0
    assert len(rounds) == 2

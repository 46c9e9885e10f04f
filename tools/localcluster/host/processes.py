"""Long-running programs of the cluster: started detached from this command, found by a later one, ended by pid.

The kernel reuses pids; pid and start time together identify a process. Both are in `<folder>/<name>.pid`, the output is
in `<folder>/<name>.log`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

MARK = "KOORD_SUITE_CLUSTER"
"""Environment variable that every process of the cluster and all its children carry; its value is the state folder."""

START_TIME_TOLERANCE_SECONDS = 0.05  # the kernel counts them in 10 ms
GRACE_SECONDS = 20.0  # kube-apiserver takes several seconds to end its watches


@dataclass(frozen=True)
class Program:
    """One long-running program: its name, its command line, and the variables to add to the environment."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]


def start(program: Program, folder: Path) -> None:
    """Start a program unless it runs; it outlives this command. Raises ClusterProblem when it cannot start."""
    if find(program.name, folder) is not None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **program.environment, MARK: str(folder)}
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(_log(program.name, folder)), append, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        pid = os.posix_spawnp(
            program.argv[0],
            list(program.argv),
            environment,
            file_actions=streams,
            setsid=True,  # a terminal's Ctrl-C does not reach it
            setsigdef=[signal.SIGPIPE],  # Python ignores it
        )
    except OSError as error:
        raise ClusterProblem(f"{program.name}: cannot start {program.argv[0]}: {error.strerror}") from error
    with contextlib.suppress(psutil.NoSuchProcess):
        _pid_file(program.name, folder).write_text(f"{pid} {psutil.Process(pid).create_time()}\n")


def find(name: str, folder: Path) -> psutil.Process | None:
    """Return the running process of that name, or None."""
    try:
        pid, created = _pid_file(name, folder).read_text().split()
        process = psutil.Process(int(pid))
        same = abs(process.create_time() - float(created)) < START_TIME_TOLERANCE_SECONDS and _lives(process)
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return None
    return process if same else None


def stop(name: str, folder: Path, *, grace_seconds: float = GRACE_SECONDS) -> None:
    """End a program, if it runs, and wait until it is gone; kill it when it ignores SIGTERM."""
    process = find(name, folder)
    if process is not None:
        end([process], grace_seconds=grace_seconds)
    _pid_file(name, folder).unlink(missing_ok=True)


def end(processes: Iterable[psutil.Process], *, grace_seconds: float = GRACE_SECONDS) -> list[psutil.Process]:
    """Send SIGTERM, wait, send SIGKILL, wait; return those that still live.

    A zombie counts as ended: it holds nothing, and its parent reaps it.
    """
    alive = [process for process in processes if _lives(process)]
    for sent, patience in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 5.0)):
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(sent)
        give_up = time.monotonic() + patience
        while alive and time.monotonic() < give_up:
            time.sleep(0.02)
            alive = [process for process in alive if _lives(process)]
    return alive


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def of_this_cluster(folder: Path) -> list[psutil.Process]:
    """Return every process with the mark of the cluster in `folder`, also those that containerd has started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get(MARK) == str(folder) and _lives(process):
                found.append(process)
    return found


def require_alive(name: str, folder: Path) -> None:
    """Raise ClusterProblem with the program's last errors when it is not running."""
    if find(name, folder) is None:
        raise ClusterProblem(f"{name} ended: {last_errors(name, folder)} (all of it: {_log(name, folder)})")


def last_errors(name: str, folder: Path) -> str:
    """Return the last errors in a program's log."""
    log = _log(name, folder)
    return commands.last_errors(log.read_text(errors="replace")[-4000:]) if log.exists() else "it has no log"


def _pid_file(name: str, folder: Path) -> Path:
    return folder / f"{name}.pid"


def _log(name: str, folder: Path) -> Path:
    return folder / f"{name}.log"

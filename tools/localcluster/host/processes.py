"""Long-running programs of the cluster: started apart from this command, found again by a later one, ended by pid.

A pid alone may have been given to a stranger meanwhile; pid and start time together name a process. Both stand in
`<folder>/<name>.pid`, the output in `<folder>/<name>.log`.
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
    """One long-running program: its name, its command line, and its environment beyond ours."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]


def start(program: Program, folder: Path) -> None:
    """Start a program that is not running yet; it outlives this command. Raises ClusterProblem when it cannot start."""
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
            setsid=True,  # no terminal's Ctrl-C reaches it
            setsigdef=[signal.SIGPIPE],  # which Python ignores
        )
    except OSError as error:
        raise ClusterProblem(f"{program.name}: cannot start {program.argv[0]}: {error.strerror}") from error
    with contextlib.suppress(psutil.NoSuchProcess):
        _pid_file(program.name, folder).write_text(f"{pid} {psutil.Process(pid).create_time()}\n")


def find(name: str, folder: Path) -> psutil.Process | None:
    """The running process of that name, or None when it has ended or was never started."""
    try:
        pid, created = _pid_file(name, folder).read_text().split()
        process = psutil.Process(int(pid))
        same = abs(process.create_time() - float(created)) < START_TIME_TOLERANCE_SECONDS and _lives(process)
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return None
    return process if same else None


def stop(name: str, folder: Path, *, grace_seconds: float = GRACE_SECONDS) -> None:
    """End a program and wait until it is gone; kill it when it does not heed SIGTERM. Not running is fine."""
    process = find(name, folder)
    if process is not None:
        end([process], grace_seconds=grace_seconds)
    _pid_file(name, folder).unlink(missing_ok=True)


def end(processes: Iterable[psutil.Process], *, grace_seconds: float = GRACE_SECONDS) -> None:
    """SIGTERM, wait, SIGKILL, wait. A zombie has ended: it holds nothing, and reaping it is its parent's business."""
    alive = [process for process in processes if _lives(process)]
    for sent, patience in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 5.0)):
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(sent)
        give_up = time.monotonic() + patience
        while alive and time.monotonic() < give_up:
            time.sleep(0.02)
            alive = [process for process in alive if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def of_this_cluster(folder: Path) -> list[psutil.Process]:
    """Every process that carries the mark of the cluster in `folder`, whoever started it on the cluster's behalf."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get(MARK) == str(folder) and _lives(process):
                found.append(process)
    return found


def require_alive(name: str, folder: Path) -> None:
    """Raise ClusterProblem with the program's last words when it is not running."""
    if find(name, folder) is None:
        raise ClusterProblem(f"{name} ended: {last_words(name, folder)} (all of it: {_log(name, folder)})")


def last_words(name: str, folder: Path) -> str:
    """The end of a program's log."""
    log = _log(name, folder)
    return commands.last_words(log.read_text(errors="replace")[-4000:]) if log.exists() else "it has no log"


def _pid_file(name: str, folder: Path) -> Path:
    return folder / f"{name}.pid"


def _log(name: str, folder: Path) -> Path:
    return folder / f"{name}.log"

"""Finding and ending long-running programs by pid and start time, with real processes."""

import sys

import psutil
import pytest

from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import processes
from tools.localcluster.host.processes import Program

SLEEPER = Program("sleeper", ["sleep", "60"], {})


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    processes.end(processes.of_this_cluster(tmp_path), grace_seconds=0.1)


def test_a_started_program_is_found_and_marked(folder):
    processes.start(SLEEPER, folder)
    found = processes.find("sleeper", folder)
    while not found.cmdline():  # the kernel shows it shortly after the spawn has returned
        pass
    assert found.cmdline() == ["sleep", "60"]
    assert found.environ()[processes.MARK] == str(folder)
    assert [p.pid for p in processes.of_this_cluster(folder)] == [found.pid]


def test_a_stopped_program_is_gone_and_stopping_again_is_fine(folder):
    processes.start(SLEEPER, folder)
    pid = processes.find("sleeper", folder).pid
    processes.stop("sleeper", folder)
    assert processes.find("sleeper", folder) is None
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    processes.stop("sleeper", folder)


def test_another_process_with_the_same_pid_is_neither_found_nor_ended(folder):
    processes.start(SLEEPER, folder)
    other = processes.find("sleeper", folder)
    (folder / "sleeper.pid").write_text(f"{other.pid} {other.create_time() - 100}\n")
    assert processes.find("sleeper", folder) is None
    processes.stop("sleeper", folder)
    assert other.is_running()


def test_children_are_found_by_the_mark_when_their_parent_is_gone(folder):
    spawn = "import subprocess, sys; subprocess.Popen(['sleep', '60'], start_new_session=True)"
    processes.start(Program("parent", [sys.executable, "-c", spawn], {}), folder)
    while processes.find("parent", folder):
        pass
    assert [p.name() for p in processes.of_this_cluster(folder)] == ["sleep"]


def test_a_program_that_ignores_the_signal_is_killed(folder):
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    processes.start(Program("stubborn", [sys.executable, "-c", stubborn], {}), folder)
    while "deaf" not in (folder / "stubborn.log").read_text():
        pass
    processes.stop("stubborn", folder, grace_seconds=0.05)
    assert processes.find("stubborn", folder) is None


def test_a_program_that_ended_is_reported_with_its_last_errors(folder):
    processes.start(Program("brief", ["sh", "-c", "echo 'no such flag: --x' >&2; exit 1"], {}), folder)
    while processes.find("brief", folder):
        pass
    with pytest.raises(ClusterProblem, match=r"brief ended: no such flag: --x"):
        processes.require_alive("brief", folder)


def test_a_missing_program_is_named(folder):
    with pytest.raises(ClusterProblem, match=r"ghost: cannot start /no/such/program: No such file"):
        processes.start(Program("ghost", ["/no/such/program"], {}), folder)

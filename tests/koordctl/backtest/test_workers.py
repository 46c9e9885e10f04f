"""Worker processes: Ctrl-C is for their parent, and they end with it."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import psutil
import pytest

from koordctl.backtest import workers

pytestmark = pytest.mark.slow

SECONDS = 30


def is_deaf_to_ctrl_c(_node):
    """Work of a worker."""
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN, os.getpid()


def wait(folder):
    """Work that does not end, and notes its process."""
    (pathlib.Path(folder) / str(os.getpid())).touch()
    signal.pause()


def parent(folder, work):
    """Return the command and the environment of a process that has two workers, and prints their results."""
    lines = [
        "import json, signal",
        "from koordctl.backtest import workers",
        "from tests.koordctl.backtest import test_workers",
        "if __name__ == '__main__':",
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored",
        f"    print(json.dumps(list(workers.each_node(test_workers.{work}, [{str(folder)!r}] * 3, 2))))",
    ]
    script = folder.with_suffix(".py")
    script.write_text("\n".join(lines))
    return [sys.executable, script], {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_the_parent_alone_handles_ctrl_c_and_ends_its_workers(tmp_path):
    command, environment = parent(tmp_path / "parent", "is_deaf_to_ctrl_c")
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=SECONDS, check=True)
    found = json.loads(ran.stdout)
    assert [is_deaf for is_deaf, _ in found] == [True] * 3
    assert not [process for _, process in found if psutil.pid_exists(process)]


def test_a_worker_imports_the_standard_library_alone_before_it_ignores_ctrl_c():
    script = "import sys; import koordctl.backtest.workers; print({'click', 'msgspec', 'numpy'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=SECONDS, check=True)
    assert ran.stdout == b"set()\n"


def test_one_worker_or_one_node_needs_no_process():
    assert [process for _, process in workers.each_node(is_deaf_to_ctrl_c, ["a", "b"], 1)] == [os.getpid()] * 2
    assert [process for _, process in workers.each_node(is_deaf_to_ctrl_c, ["a"], 2)] == [os.getpid()]


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    folder = tmp_path / "workers"
    folder.mkdir()
    command, environment = parent(folder, "wait")
    process = subprocess.Popen(command, env=environment)
    children = []
    try:
        while len(list(folder.iterdir())) < 2:
            assert process.poll() is None
            time.sleep(0.02)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        assert not psutil.wait_procs(children, timeout=SECONDS)[1]
    finally:
        for each in [process, *children]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()

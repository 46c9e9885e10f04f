"""`python -m manager check-install` is `koordctl check`, and only that command loads koordctl."""

import subprocess
import sys

import pytest

from koordctl import commands
from manager import __main__ as manager
from manager.cli import check_install


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ["--wait=120s", "--require=agent,manager,scheduler"]),
        ({"agent": "", "wait_seconds": 0}, ["--wait=0s", "--require=manager,scheduler"]),
        ({"kubeconfig": "/k"}, ["--wait=120s", "--require=agent,manager,scheduler", "--kubeconfig=/k"]),
    ],
)
def test_its_settings_become_flags(chosen, expected):
    words = check_install.words(check_install.CheckInstallSettings(**chosen))
    assert words == ["check", "--namespace=koordinator-system", *expected]
    commands.parser().parse_args(words)


def test_its_exit_code_is_that_of_koordctl(tmp_path, capsys):
    kubeconfig = tmp_path / "none"
    assert manager.main(["check-install", f"--kubeconfig={kubeconfig}", "--wait-seconds=0"]) == 2
    assert str(kubeconfig) in capsys.readouterr().err


def test_a_running_manager_loads_nothing_of_koordctl():
    program = (
        "import sys, manager.program, manager.__main__\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('koordctl', 'fleet', 'rich')])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"

"""The agent's collectors on a real cgroup v2, in a virtual machine: many CI machines have v1 alone.

Needs no cluster. The virtual machine runs the test files that `make test` runs on this machine's cgroups. It also has
two NUMA nodes, which many CI machines do not have.
"""

from __future__ import annotations

import os
import platform
import shutil

import pytest

from e2e.cgroup_v2_vm import image, machine
from tools.localcluster.host import debian_packages

TESTS = ("tests/koordlet/collectors/test_live_cgroups.py", "tests/koordlet/collectors/test_live_numa.py")
CODE = (
    "api_types/__init__.py",
    "api_types/kubernetes/cpu_list.py",
    "koordlet/__init__.py",
    "koordlet/samples.py",
    "koordlet/collectors",
    "tests/__init__.py",
    "tests/host_trees",
    *TESTS,
)
PYTEST = (
    "--override-ini=markers=slow",
    "--import-mode=importlib",
    "--color=no",
    "-p",
    "no:cacheprovider",
    "-ra",
    "--durations=5",
    "-W",
    "error",
)

needs_debian = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("apt-get") is None or platform.machine() != "x86_64",
    reason="needs root on an x86-64 Debian to make the virtual machine",
)


@needs_debian
@pytest.mark.timeout(420)
def test_the_collectors_agree_with_the_counters_of_a_cgroup_v2_kernel() -> None:
    debian_packages.ensure(image.PACKAGES)
    ended = machine.run_pytest(CODE, [*PYTEST, *TESTS])
    print(ended.output)
    assert ended.exit_code == 0, ended.output
    assert "needs cgroups v1" in ended.output, "the tests of v1 alone are the only ones left out"
    assert "needs cgroups v2" not in ended.output
    assert "needs two NUMA nodes" not in ended.output

"""The agent's memory of NUMA nodes, in an emulated machine with two of them, which many CI machines do not have.

Needs no cluster.
"""

from __future__ import annotations

import os
import platform
import shutil

import pytest

from e2e.numa_vm import image, machine
from tools.localcluster.host import debian_packages

needs_debian = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("apt-get") is None or platform.machine() != "x86_64",
    reason="needs root on an x86-64 Debian to make the virtual machine",
)


@needs_debian
@pytest.mark.timeout(420)
def test_the_memory_of_a_pod_is_on_the_node_whose_cpus_touched_it() -> None:
    debian_packages.ensure(image.PACKAGES)
    ended = machine.run_tests()
    print(ended.output)
    assert ended.exit_code == 0, ended.output
    assert "skipped" not in ended.output, "the machine has two NUMA nodes"

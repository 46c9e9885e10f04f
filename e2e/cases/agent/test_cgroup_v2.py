"""The agent's collectors on the control groups of a node with v2 and systemd.

The node runs the tests that `make test` runs on the control groups of this machine. Those of v1 are the only ones that
it may skip.
"""

from __future__ import annotations

import re
import sys

import pytest

from tools.localcluster import running
from tools.localcluster.access import Cluster
from tools.localcluster.nodes import host_files

PYTEST = (sys.executable, "-m", "pytest", "--color=no", "-p", "no:cacheprovider", "--timeout=180", "--durations=5")
TESTS = "tests/koordlet/collectors/test_live_cgroups.py"


def test_the_collectors_agree_with_the_counters_of_a_cgroup_v2_kernel(cluster: Cluster, node: str) -> None:
    if cluster.provider != "nodes":
        pytest.skip("needs a node that runs programs of this machine")
    output = running.provider().shell(node, f"{host_files.script([*PYTEST, TESTS])} || true")
    print(output)
    assert re.search(r"^=* *\d+ passed, \d+ skipped in ", output, re.MULTILINE), output
    assert set(re.findall(r"^SKIPPED \[\d+\] [^ ]+: (.*)$", output, re.MULTILINE)) == {"needs cgroups v1"}

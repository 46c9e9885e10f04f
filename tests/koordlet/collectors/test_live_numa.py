"""NUMA nodes with real groups and processes, compared with the kernel's own counters.

The first test runs on any machine, the others need two nodes: `e2e/cases/agent/test_numa_nodes.py` has a virtual
machine with two. The clock is simulated: cores times its seconds are seconds of work.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from koordlet.collectors import numa
from koordlet.collectors.cgroup.files import CgroupVersion
from tests.host_trees import live_cgroups
from tests.host_trees.group_names import CGROUPFS, GroupNames
from tests.host_trees.live_cgroups import LiveCgroups
from tests.host_trees.plain_files import V1

NODES = Path("/sys/devices/system/node")
CPUS = {int(path.name[4:]): numa.cpus((path / "cpulist").read_bytes()) for path in NODES.glob("node[0-9]*")}

pytestmark = [live_cgroups.needed, pytest.mark.skipif(not CPUS, reason="this kernel knows no NUMA nodes")]
needs_two = pytest.mark.skipif(len(CPUS) < 2, reason="needs two NUMA nodes")

UID = "11111111-2222-3333-4444-555555555555"
MIB = 1 << 20
HELD_BYTES = 48 * MIB
DEADLINE_SECONDS = 30.0
HOLD_ON = (
    "import mmap,os,sys; os.sched_setaffinity(0, {cpus}); held=mmap.mmap(-1,{bytes}); held.write(b'x'*{bytes}); "
    "print(1,flush=True); sys.stdin.read()"
)
PYTHON = ("python3", "-I", "-S", "-c")


@pytest.fixture
def host(tmp_path):
    host = LiveCgroups(tmp_path)
    yield host
    host.close()


@pytest.fixture
def group(host):
    named = GroupNames(CGROUPFS)
    host.group(str(named.container(UID, "1" * 64)))
    return named


def hold(host, group, node):
    """Let a container of the pod touch memory on the CPUs of a node, from which the kernel then takes the memory."""
    code = HOLD_ON.format(cpus=set(CPUS[node]), bytes=HELD_BYTES)
    host.run(str(group.container(UID, "1" * 64)), *PYTHON, code).stdout.readline()
    pod = str(group.pod(UID))
    until(lambda: used_bytes(host, pod) > 0.98 * HELD_BYTES)  # a CPU reserves some pages


def used_bytes(host, pod):
    outside = host.memory_stat(pod)
    return sum(outside[key] for key in ("inactive_anon", "active_anon", "unevictable"))


def until(is_so):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "the kernel does not show it"
        time.sleep(0.02)


def by_node(host, group):
    version = CgroupVersion.V1 if host.version == V1 else CgroupVersion.V2
    text = (host.folder("memory", str(group.pod(UID))) / "memory.numa_stat").read_bytes()
    return numa.group_bytes(text, version, os.sysconf("SC_PAGE_SIZE"))


def test_the_memory_of_a_pod_by_node_adds_up_to_the_usage_of_the_pod(host, group):
    hold(host, group, min(CPUS))
    assert sum(by_node(host, group).values()) == pytest.approx(used_bytes(host, str(group.pod(UID))), rel=0.02)


@needs_two
@pytest.mark.parametrize("node", sorted(CPUS)[:2])
def test_memory_is_on_the_node_whose_cpus_touched_it(host, group, node):
    hold(host, group, node)
    found = by_node(host, group)
    assert found[node] > 0.9 * sum(found.values())

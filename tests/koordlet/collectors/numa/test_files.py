"""Contents as kernels print them; sums computed by hand."""

import pytest

from koordlet.collectors.cgroup.files import CgroupVersion
from koordlet.collectors.numa import files as numa_files
from tests.host_trees import numa_tree

STAT = b"""cpu  30 3 3 300 30 3 3 3 0 0
cpu0 10 1 2 100 20 3 4 5 6 7
cpu11 20 2 1 200 10 0 9 1 0 0
intr 123 cpu0 1 2 3
softirq 1 2 3
"""
GROUP_V1 = b"""total=30 N0=10 N1=20
file=20 N0=7 N1=13
anon=6 N0=2 N1=4
unevictable=4 N0=1 N1=3
hierarchical_total=300 N0=100 N1=200
hierarchical_file=200 N0=70 N1=130
hierarchical_anon=60 N0=20 N1=40
hierarchical_unevictable=40 N0=10 N1=30
"""
GROUP_V2 = b"""anon N0=900 N1=901
file N0=800 N1=801
inactive_anon N0=100 N1=200
active_anon N0=10 N1=20
inactive_file N0=700 N1=701
unevictable N0=1 N1=2
workingset_refault_anon N0=5 N1=6
"""


def test_a_node_of_memory_only_has_no_cpus():
    assert numa_files.cpus(b"\n") == set()
    assert numa_files.cpus(b"0-1,8\n") == {0, 1, 8}


def test_busy_ticks_are_all_but_idle_iowait_steal_and_guest():
    assert numa_files.busy_ticks(STAT) == {0: 10 + 1 + 2 + 3 + 4, 11: 20 + 2 + 1 + 0 + 9}


@pytest.mark.parametrize("text", [b"", b"cpu  1 2 3 4 5 6 7 8 9 10\n", b"cpu0 1 2 3\n"])
def test_without_a_line_of_a_cpu_there_are_no_ticks(text):
    with pytest.raises(ValueError, match="no line with the times of a single CPU"):
        numa_files.busy_ticks(text)


def test_used_memory_is_neither_free_nor_cache():
    assert numa_files.used_bytes(numa_tree.meminfo(1, 123 << 20).encode()) == 123 << 20


def test_used_memory_is_never_below_zero():
    text = numa_tree.meminfo(0, 0).replace(" 30 kB", " 29 kB")
    assert "29 kB" in text
    assert numa_files.used_bytes(text.encode()) == 0


@pytest.mark.parametrize("key", ["MemTotal", "MemFree", "Active(file)", "Inactive(file)", "SReclaimable"])
def test_a_size_that_is_missing_is_named(key):
    lines = [line for line in numa_tree.meminfo(0, 1 << 20).splitlines() if f" {key}:" not in line]
    with pytest.raises(ValueError) as refused:
        numa_files.used_bytes("\n".join(lines).encode())
    assert str(refused.value) == f"no size in kB of {key}"


def test_memory_of_a_group_uses_the_keys_of_pod_usage():
    assert numa_files.group_bytes(GROUP_V1, CgroupVersion.V1, 4096) == {0: 30 * 4096, 1: 70 * 4096}
    assert numa_files.group_bytes(GROUP_V2, CgroupVersion.V2, 4096) == {0: 111, 1: 222}


@pytest.mark.parametrize(
    ("text", "version", "detail"),
    [
        (GROUP_V1, CgroupVersion.V2, "no line of inactive_anon, active_anon"),
        (b"", CgroupVersion.V1, "no line of hierarchical_anon, hierarchical_unevictable"),
        (GROUP_V2.replace(b"N1=200", b"N1=-200"), CgroupVersion.V2, "no line of inactive_anon with N<node>=<number>"),
    ],
)
def test_a_group_without_its_numbers_is_refused(text, version, detail):
    with pytest.raises(ValueError) as refused:
        numa_files.group_bytes(text, version, 4096)
    assert detail in str(refused.value)

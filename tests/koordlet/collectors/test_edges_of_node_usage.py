"""Zeros that are valid: idle CPU times, no available memory, and pods that use more memory than the node."""

import pytest

from koordlet.collectors import node_usage, rates
from koordlet.samples import UsageSample
from tests.host_trees.plain_files import PlainHost


@pytest.fixture
def proc(tmp_path):
    host = PlainHost(tmp_path)
    host.set_node(busy_ticks=1000, used_bytes=1 << 30)
    return host.host_root.proc_root


def test_cpu_times_of_0_are_valid(proc):
    (proc / "stat").write_text("cpu  500 0 0 9 9 0 0 0 0 0\n")
    assert node_usage.busy_cpu_seconds(proc) == 5.0


def test_a_machine_may_have_no_memory_available(proc):
    (proc / "meminfo").write_text("MemTotal: 2048 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\n")
    assert node_usage.memory(proc).usage_bytes == 2 << 20


@pytest.mark.parametrize("available", [2049, 4096])
def test_more_available_memory_than_there_is_is_refused(proc, available):
    (proc / "meminfo").write_text(f"MemTotal: 2048 kB\nMemFree: 0 kB\nMemAvailable: {available} kB\n")
    with pytest.raises(node_usage.UnreadableProc, match="bytes are available of"):
        node_usage.memory(proc)


def test_pods_that_use_more_memory_than_the_node_leave_none_to_the_system():
    assert rates.system_usage(UsageSample(4.0, 8e9), [UsageSample(1.0, 9e9)]) == UsageSample(3.0, 0.0)

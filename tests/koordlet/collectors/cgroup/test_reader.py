"""What a reading of a group gives: the reason where it is no rate, and memory with or without page cache."""

import pytest

from koordlet.collectors.cgroup import layout as cgroup_layout
from koordlet.collectors.cgroup.reader import CgroupReader
from koordlet.collectors.open_files import DescriptorBudget
from koordlet.collectors.rates import NoRate
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import MIB, V1, V2, PlainHost


@pytest.mark.parametrize("version", [V1, V2])
def test_the_first_reading_and_that_of_another_group_have_their_own_reasons(tmp_path, version):
    host, clock = PlainHost(tmp_path, version), Clock()
    host.set_group(host.pod("a"), 1.0, MIB)
    reader = CgroupReader(cgroup_layout.probe(host.host_root.cgroup_root), str(host.pod("a")), DescriptorBudget(0))

    def read():
        clock.advance(1.0)
        return reader.cpu_cores(clock, 4)

    assert [read(), read()] == [NoRate.FIRST_READING, 0.0]
    (host.cpu_mount / host.pod("a")).rename(tmp_path / "kept")  # keeps the inodes in use
    host.set_group(host.pod("a"), 1.0, MIB)
    assert [read(), read()] == [NoRate.OTHER_COUNTER, 0.0]


@pytest.mark.parametrize("version", [V1, V2])
def test_page_cache_counts_as_memory_on_request_only(tmp_path, version):
    host = PlainHost(tmp_path, version)
    host.set_group(host.pod("a"), 1.0, 8 * MIB)
    reader = CgroupReader(cgroup_layout.probe(host.host_root.cgroup_root), str(host.pod("a")), DescriptorBudget(0))
    assert (reader.memory_bytes(), reader.memory_bytes(False)) == (8 * MIB, 8 * MIB)
    assert reader.memory_bytes(True) == (8 + 3 + 2) * MIB  # inactive and active files

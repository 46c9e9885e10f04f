"""The turns in which the memory of groups is read."""

import pytest

from koordlet.collectors.cgroup import layout as cgroup_layout
from koordlet.collectors.cgroup.batch import CgroupBatch
from koordlet.collectors.cgroup.reader import CgroupReader
from koordlet.collectors.open_files import DescriptorBudget
from koordlet.collectors.statistics import CollectStatistics
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import MIB, V1, V2, PlainHost


@pytest.mark.parametrize("version", [V1, V2])
def test_groups_that_failed_together_take_different_turns_afterwards(tmp_path, version):
    host, clock = PlainHost(tmp_path, version), Clock()
    batch = CgroupBatch(CollectStatistics(), memory_ticks=3)
    layout = cgroup_layout.probe(host.host_root.cgroup_root)

    def read(mib):
        for name in "abc":
            host.set_group(host.pod(name), 1.0, mib * MIB)
            if not mib:
                host.write(host.pod(name), "memory.stat", "spoilt\n")
            if name not in batch.readers:
                batch.readers[name] = CgroupReader(layout, str(host.pod(name)), DescriptorBudget(0))
        clock.advance(1.0)
        return {name: each.memory_bytes / MIB for name, each in batch.usage(batch.cpu_cores(clock, 4), None).items()}

    assert [len(read(mib)) for mib in (100, 100, 0, 0, 0)] == [0, 3, 2, 1, 0]
    assert read(200) == dict.fromkeys("abc", 200)
    found = [read(mib) for mib in (300, 400, 500)]
    assert [sorted(each.values()) for each in found] == [[200, 200, 300], [200, 300, 400], [300, 400, 500]]

"""Groups that end and begin again under the same identity, and a counter without a line break at its end."""

import shutil

import pytest

from koordlet.collectors.cgroup import files as cgroup_files
from koordlet.collectors.cgroup import layout as cgroup_layout
from koordlet.collectors.cgroup.batch import CgroupBatch
from koordlet.collectors.cgroup.reader import CgroupReader
from koordlet.collectors.open_files import DescriptorBudget
from koordlet.collectors.statistics import CollectStatistics
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import MIB, V1, V2, PlainHost
from tests.koordlet.collectors.cgroup.test_batch import Batch


@pytest.mark.parametrize("version", [V1, V2])
def test_a_group_that_begins_again_has_none_of_the_memory_of_the_last_one(tmp_path, version):
    """Memory is read in every third tick, so the last value of another group would be repeated."""
    host, clock = PlainHost(tmp_path, version), Clock()
    batch = CgroupBatch(CollectStatistics(), memory_ticks=3)
    layout = cgroup_layout.probe(host.host_root.cgroup_root)

    def begin(mib):
        for name in "abc":
            host.set_group(host.pod(name), 1.0, mib * MIB)
            batch.readers[name] = CgroupReader(layout, str(host.pod(name)), DescriptorBudget(0))

    def read():
        clock.advance(1.0)
        return {name: each.memory_bytes / MIB for name, each in batch.usage(batch.cpu_cores(clock, 4), None).items()}

    begin(100)
    assert [read(), read()] == [{}, dict.fromkeys("abc", 100.0)]
    batch.keep_only({})
    assert batch.readers == {}
    begin(200)
    assert [read(), read()] == [{}, dict.fromkeys("abc", 200.0)]
    batch.keep_only({})


def test_a_cpu_counter_is_read_without_a_line_break_at_its_end():
    assert cgroup_files.cpu_nanoseconds_v2(b"usage_usec 7") == 7000


def test_a_memory_group_that_is_there_again_is_no_problem_any_more(tmp_path):
    batch = Batch(tmp_path, V1)
    shutil.rmtree(batch.host.memory_mount / batch.host.pod("a"))
    batch.read()
    assert list(batch.batch.partial) == ["a"]
    batch.host.set_group(batch.host.pod("a"), 2.0, 100 * MIB)
    assert batch.read().keys() == {"a", "b", "c"}
    assert batch.batch.partial == {}

"""Faults and ends of some groups of a batch cost the others nothing."""

import shutil

import pytest

from koordlet.collectors.cgroup import discovery
from koordlet.collectors.cgroup.batch import CPU, MEMORY, CgroupBatch, CgroupReader
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.open_files import DescriptorBudget
from koordlet.samples import UsageSample
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import MIB, V1, V2, PlainHost

PODS = ("a", "b", "c")


class Batch:
    """Three pods that use half a core each, and the batch that reads them."""

    def __init__(self, root, version):
        self.host = PlainHost(root, version)
        self.clock = Clock()
        self.batch = CgroupBatch(CollectStatistics())
        layout = discovery.probe(self.host.host_root.cgroup_root)
        for uid in PODS:
            self.host.set_group(self.host.pod(uid), 1.0, 100 * MIB)
            self.batch.readers[uid] = CgroupReader(layout, str(self.host.pod(uid)), DescriptorBudget(0))
        self.read()
        for uid in PODS:
            self.host.set_group(self.host.pod(uid), 1.5, 100 * MIB)

    def read(self):
        self.clock.advance(1.0)
        return self.batch.usage(self.batch.cpu_cores(self.clock, 4), None)

    def paths(self, *uids):
        return [str(self.host.pod(uid)) for uid in uids]


@pytest.fixture(params=[V1, V2])
def batch(request, tmp_path):
    return Batch(tmp_path, request.param)


def used(*uids):
    return {uid: UsageSample(pytest.approx(0.5), 100.0 * MIB) for uid in uids}


@pytest.mark.parametrize("spoilt", PODS)
@pytest.mark.parametrize("source", [CPU, MEMORY])
def test_a_file_that_cannot_be_read_is_a_fault_of_its_own_group_only(batch, source, spoilt):
    file = "memory.stat" if source == MEMORY else {V1: "cpuacct.usage", V2: "cpu.stat"}[batch.host.version]
    batch.host.write(batch.host.pod(spoilt), file, "spoilt\n")
    assert batch.read() == used(*(uid for uid in PODS if uid != spoilt))
    assert {uid: (each.source, each.path.endswith(file)) for uid, each in batch.batch.no_data.items()} == {
        spoilt: (source, True)
    }
    assert list(batch.batch.readers) == list(PODS)


@pytest.mark.parametrize(("gone", "spoilt"), [("ab", "c"), ("bc", "a"), ("ac", "b")])
def test_of_groups_that_fail_together_each_is_ended_or_a_fault(batch, gone, spoilt):
    for uid in gone:
        batch.host.remove_group(batch.host.pod(uid))
    file = {V1: "cpuacct.usage", V2: "cpu.stat"}[batch.host.version]
    batch.host.write(batch.host.pod(spoilt), file, "spoilt\n")
    assert batch.read() == {}
    assert batch.batch.ended == batch.paths(*gone)
    assert list(batch.batch.readers) == [spoilt]
    assert list(batch.batch.no_data) == [spoilt]
    batch.read()
    assert batch.batch.ended == []


@pytest.mark.parametrize(("lacking", "spoilt"), [("ab", "c"), ("bc", "a"), ("ac", "b")])
def test_groups_without_a_memory_group_are_no_fault_and_hide_none(tmp_path, lacking, spoilt):
    batch = Batch(tmp_path, V1)
    for uid in lacking:
        shutil.rmtree(batch.host.memory_mount / batch.host.pod(uid))
    batch.host.write(batch.host.pod(spoilt), "memory.stat", "spoilt\n")
    assert batch.read() == {}
    assert sorted(batch.batch.partial) == list(lacking)
    assert list(batch.batch.no_data) == [spoilt]
    assert list(batch.batch.readers) == list(PODS)


@pytest.mark.parametrize("version", [V1, V2])
def test_a_group_that_begins_again_has_none_of_the_memory_of_the_last_one(tmp_path, version):
    """Memory is read in every third tick, so the last value of another group would be repeated."""
    host, clock = PlainHost(tmp_path, version), Clock()
    batch = CgroupBatch(CollectStatistics(), memory_ticks=3)
    layout = discovery.probe(host.host_root.cgroup_root)

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


@pytest.mark.parametrize("version", [V1, V2])
def test_page_cache_counts_as_memory_on_request_only(tmp_path, version):
    host = PlainHost(tmp_path, version)
    host.set_group(host.pod("a"), 1.0, 8 * MIB)
    reader = CgroupReader(discovery.probe(host.host_root.cgroup_root), str(host.pod("a")), DescriptorBudget(0))
    assert (reader.memory_bytes(), reader.memory_bytes(False)) == (8 * MIB, 8 * MIB)
    assert reader.memory_bytes(True) == (8 + 3 + 2) * MIB  # inactive and active files

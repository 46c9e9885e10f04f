"""The collector against real v1 cgroups with real processes in them.

The clock is simulated, so a rate times its interval can be compared with the growth of the counter read from outside;
loads are processes that work until told to stop, and are stopped while counters are compared.
"""

from __future__ import annotations

import signal
import time

import pytest

from koordlet.collectors.catalog import SnapshotCollector
from tests.host_trees import live_cgroups_v1
from tests.host_trees.clock import Clock
from tests.host_trees.live_cgroups_v1 import LiveCgroups

pytestmark = live_cgroups_v1.needed

POD = "kubepods/burstable/pod11111111-2222-3333-4444-555555555555"
UID = "11111111-2222-3333-4444-555555555555"
ONE, TWO = "1" * 64, "2" * 64
MIB = 1 << 20
SPIN = "while True: pass"
HOLD = "import mmap,sys; held=mmap.mmap(-1,{bytes}); held.write(b'x'*{bytes}); print(1,flush=True); sys.stdin.read()"
DEADLINE_SECONDS = 30.0


@pytest.fixture
def host(tmp_path):
    host = LiveCgroups(tmp_path)
    yield host
    host.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def collector(host, clock):
    collector = SnapshotCollector(host.host_root, clock)
    yield collector
    collector.close()


def cpu_ns(host, path):
    return int(host.read("cpuacct", path, "cpuacct.usage"))


def work(host, process, path, nanoseconds):
    """Let a process use that much CPU, and stop it."""
    goal = cpu_ns(host, path) + nanoseconds
    deadline = time.monotonic() + DEADLINE_SECONDS
    process.send_signal(signal.SIGCONT)
    while cpu_ns(host, path) < goal:
        assert time.monotonic() < deadline, "the process does not run"
        time.sleep(0.002)
    stop(host, process, path)


def stop(host, process, path):
    process.send_signal(signal.SIGSTOP)
    before = -1
    while before != (before := cpu_ns(host, path)):
        time.sleep(0.005)


def spin(host, container):
    process = host.run(f"{POD}/{container}", "python3", "-c", SPIN)
    work(host, process, f"{POD}/{container}", 10**6)
    return process


def tick(collector, clock, seconds=1.0):
    clock.advance(seconds)
    return collector.collect(1.0)


def test_the_rate_of_a_pod_and_its_containers_is_the_growth_of_their_counters(host, collector, clock):
    for container in (ONE, TWO):
        host.group(f"{POD}/{container}")
    processes = {container: spin(host, container) for container in (ONE, TWO)}
    tick(collector, clock)
    before = {path: cpu_ns(host, path) for path in (POD, f"{POD}/{ONE}", f"{POD}/{TWO}")}
    work(host, processes[ONE], f"{POD}/{ONE}", 30 * 10**6)
    work(host, processes[TWO], f"{POD}/{TWO}", 10 * 10**6)
    snapshot = tick(collector, clock, seconds=2.0)
    grown = {path: (cpu_ns(host, path) - count) / 2e9 for path, count in before.items()}
    assert snapshot.pods[UID].cpu_cores == pytest.approx(grown[POD], rel=1e-6)
    assert snapshot.containers[ONE].cpu_cores == pytest.approx(grown[f"{POD}/{ONE}"], rel=1e-6)
    assert snapshot.containers[TWO].cpu_cores == pytest.approx(grown[f"{POD}/{TWO}"], rel=1e-6)
    assert snapshot.containers[ONE].cpu_cores >= 0.015


def test_memory_a_container_touches_is_in_its_pod(host, collector, clock):
    host.group(f"{POD}/{ONE}")
    process = host.run(f"{POD}/{ONE}", "python3", "-c", HOLD.format(bytes=64 * MIB))
    process.stdout.readline()
    tick(collector, clock)
    pod = tick(collector, clock).pods[UID]
    outside = dict(line.split() for line in host.read("memory", POD, "memory.stat").splitlines())
    expected = sum(int(outside[f"total_{key}"]) for key in ("inactive_anon", "active_anon", "unevictable"))
    assert pod.memory_bytes == pytest.approx(expected, rel=0.02)
    assert 64 * MIB < pod.memory_bytes < 96 * MIB


def test_page_cache_does_not_count(host, collector, clock, tmp_path):
    host.group(f"{POD}/{ONE}")
    writes = f"data=open('{tmp_path}/copy','wb'); data.write(b'x'*{32 * MIB}); data.close(); print(1,flush=True)"
    process = host.run(f"{POD}/{ONE}", "python3", "-c", f"{writes}; import sys; sys.stdin.read()")
    process.stdout.readline()
    tick(collector, clock)
    pod = tick(collector, clock).pods[UID]
    cache = dict(line.split() for line in host.read("memory", POD, "memory.stat").splitlines())["total_cache"]
    assert int(cache) >= 31 * MIB
    assert pod.memory_bytes < 31 * MIB


def test_a_pod_that_is_removed_is_dropped_without_a_fault_and_its_descriptors_closed(host, collector, clock):
    host.group(f"{POD}/{ONE}")
    tick(collector, clock)
    assert tick(collector, clock).pods.keys() == {UID}
    assert collector.statistics.descriptors_kept == 4
    host.remove(POD)
    snapshot = tick(collector, clock)
    assert (snapshot.pods, snapshot.unmeasured_pods, snapshot.no_data) == ({}, frozenset(), ())
    assert collector.statistics.descriptors_kept == 0


def test_a_pod_recreated_between_two_ticks_begins_anew(host, collector, clock):
    host.group(f"{POD}/{ONE}")
    host.end(spin(host, ONE))
    tick(collector, clock)
    tick(collector, clock)
    host.remove(POD)
    host.group(POD)
    assert tick(collector, clock).pods == {}, "the counter of another group gives no rate"
    for _ in range(2):
        snapshot = tick(collector, clock)
    assert snapshot.pods[UID].cpu_cores == 0.0


def test_a_container_restarted_between_two_ticks_is_followed(host, collector, clock):
    host.group(f"{POD}/{ONE}")
    tick(collector, clock)
    tick(collector, clock)
    host.remove(f"{POD}/{ONE}")
    host.group(f"{POD}/{TWO}")
    for _ in range(3):
        snapshot = tick(collector, clock)
    assert snapshot.containers.keys() == {TWO}
    assert (snapshot.pods.keys(), snapshot.no_data) == ({UID}, ())


def test_a_pod_killed_while_it_works_never_counts_as_system(host, collector, clock):
    host.group(f"{POD}/{ONE}")
    process = spin(host, ONE)
    tick(collector, clock)
    work(host, process, f"{POD}/{ONE}", 20 * 10**6)
    host.end(process)
    host.remove(POD)
    snapshot = tick(collector, clock)
    assert snapshot.node is not None
    assert snapshot.system is None
    assert tick(collector, clock).system is not None


def test_a_pod_whose_memory_group_is_missing_is_unmeasured_with_the_path(host, collector, clock):
    host.group(POD)
    (host.host_root.cgroup_root / "memory" / POD).rmdir()
    tick(collector, clock)
    snapshot = tick(collector, clock)
    assert snapshot.unmeasured_pods == {UID}
    assert [(one.source, one.reason) for one in snapshot.no_data] == [("pod memory", "No such file or directory")]
    host.group(POD)
    assert tick(collector, clock).pods.keys() == {UID}

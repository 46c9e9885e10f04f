"""The collectors on real cgroups with real processes, compared with the kernel's own counters.

The tests run on the cgroups of the machine, v1 or v2; `e2e/cases/agent/test_cgroup_v2.py` runs them on a node with v2.
The clock is simulated, so a rate times its interval can be compared with the growth of the counter. Loads are processes
that work until stopped, and are stopped while counters are compared.
"""

from __future__ import annotations

import dataclasses
import errno
import random
import signal
import time
from pathlib import Path

import pytest

from koordlet.collectors.cgroup.files import FEWEST_PERIODS
from koordlet.collectors.node_pressure import NodePressure
from koordlet.collectors.open_files import CachedFile, DescriptorBudget
from koordlet.collectors.pod_pressure import POD_PRESSURE_TICKS, PodPressure
from koordlet.collectors.pod_usage import MOST_UNMEASURED_TICKS
from koordlet.collectors.snapshot import HostCollector
from tests.host_trees import live_cgroups
from tests.host_trees.clock import Clock
from tests.host_trees.group_names import CGROUPFS, SYSTEMD, GroupNames
from tests.host_trees.live_cgroups import LiveCgroups
from tests.host_trees.plain_files import TICKS_PER_SECOND, V1, V2

pytestmark = [live_cgroups.needed, pytest.mark.slow]

UID = "11111111-2222-3333-4444-555555555555"
ONE, TWO = "1" * 64, "2" * 64
MIB = 1 << 20
SPIN = "while :; do :; done"
# Written in small pieces: a second copy of all the bytes would stay in the lagging memory.stat for a while.
HOLD = (
    "import mmap,sys; held=mmap.mmap(-1,{bytes}); page=b'x'*4096\n"
    "while held.tell()<{bytes}: held.write(page)\n"
    "print(1,flush=True); sys.stdin.read()"
)
DEADLINE_SECONDS = 30.0
PYTHON = ("python3", "-I", "-S", "-c")

needs_v1 = pytest.mark.skipif(live_cgroups.version_here() != V1, reason="needs cgroups v1")
needs_v2 = pytest.mark.skipif(live_cgroups.version_here() != V2, reason="needs cgroups v2")


@dataclasses.dataclass(frozen=True)
class Paths:
    """Groups of one pod and its containers, as named by a cgroup driver."""

    driver: str
    pod: str
    one: str
    two: str


@pytest.fixture(params=[CGROUPFS, SYSTEMD])
def paths(request):
    named = GroupNames(request.param)
    return Paths(request.param, str(named.pod(UID)), str(named.container(UID, ONE)), str(named.container(UID, TWO)))


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
    collector = HostCollector(host.host_root, clock)
    yield collector
    collector.close()


def pod_pressure(collector):
    return next(each for each in collector.collectors if isinstance(each, PodPressure))


def node_pressure(collector):
    return next(each for each in collector.collectors if isinstance(each, NodePressure))


def work(host, process, path, nanoseconds):
    """Run a process until it has used that much CPU, and stop it."""
    goal = host.cpu_nanoseconds(path) + nanoseconds
    deadline = time.monotonic() + DEADLINE_SECONDS
    process.send_signal(signal.SIGCONT)
    while host.cpu_nanoseconds(path) < goal:
        assert time.monotonic() < deadline, "the process does not run"
        time.sleep(0.002)
    stop(host, process, path)


def stop(host, process, path):
    process.send_signal(signal.SIGSTOP)
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0] != "T":
        time.sleep(0.002)
    before = -1
    while before != (before := host.cpu_nanoseconds(path)):
        time.sleep(0.005)


def spin(host, path):
    process = host.run(path, "sh", "-c", SPIN)
    work(host, process, path, 10**6)
    return process


def tick(collector, clock, seconds=1.0):
    clock.advance(seconds)
    return collector.collect(1.0)


def test_the_rate_of_a_pod_is_the_growth_of_its_counter(host, collector, clock, paths):
    for path in (paths.one, paths.two):
        host.group(path)
    first, second = spin(host, paths.one), spin(host, paths.two)
    tick(collector, clock)
    before = host.cpu_nanoseconds(paths.pod)
    work(host, first, paths.one, 30 * 10**6)
    work(host, second, paths.two, 10 * 10**6)
    grown = (host.cpu_nanoseconds(paths.pod) - before) / 1e9
    snapshot = tick(collector, clock, seconds=2.0)
    assert snapshot.pods[UID].cpu_cores * 2 == pytest.approx(grown, rel=1e-6)
    assert grown >= 0.04


def used_memory(host, group):
    outside = host.memory_stat(group)
    return sum(outside[key] for key in ("inactive_anon", "active_anon", "unevictable"))


def until_the_kernel_shows(read, wanted_bytes):
    """Wait for memory.stat, which lags up to 2 s: the kernel sums its per-CPU counters when it has time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while read() < wanted_bytes and time.monotonic() < deadline:
        time.sleep(0.02)


def test_memory_a_container_touches_is_in_its_pod(host, collector, clock, paths):
    host.group(paths.one)
    process = host.run(paths.one, *PYTHON, HOLD.format(bytes=64 * MIB))
    process.stdout.readline()
    until_the_kernel_shows(lambda: used_memory(host, paths.pod), 64 * MIB)
    tick(collector, clock)
    pod = tick(collector, clock).pods[UID]
    assert pod.memory_bytes == pytest.approx(used_memory(host, paths.pod), rel=0.02)
    assert 64 * MIB < pod.memory_bytes < 96 * MIB


def test_page_cache_does_not_count(host, collector, clock, paths, tmp_path):
    host.group(paths.one)
    writes = f"data=open('{tmp_path}/copy','wb'); data.write(b'x'*{32 * MIB}); data.close(); print(1,flush=True)"
    process = host.run(paths.one, *PYTHON, f"{writes}; import sys; sys.stdin.read()")
    process.stdout.readline()
    most = 28 * MIB  # the kernel counts some pages late
    until_the_kernel_shows(lambda: host.memory_stat(paths.pod)["file"], most)
    tick(collector, clock)
    pod = tick(collector, clock).pods[UID]
    assert host.memory_stat(paths.pod)["file"] >= most
    assert pod.memory_bytes < most


def test_an_out_of_memory_kill_leaves_the_pod_measured(host, collector, clock, paths):
    host.group(paths.one)
    host.limit_memory(paths.one, 24 * MIB)
    tick(collector, clock)
    process = host.run(paths.one, *PYTHON, HOLD.format(bytes=64 * MIB))
    assert process.wait(DEADLINE_SECONDS) == -signal.SIGKILL
    assert host.oom_kills(paths.one) == 1
    snapshot = tick(collector, clock)
    assert (snapshot.no_data, snapshot.unmeasured_pods) == ((), frozenset())
    assert snapshot.pods[UID].memory_bytes < 24 * MIB
    assert snapshot.pods[UID].cpu_cores * 1e9 == pytest.approx(host.cpu_nanoseconds(paths.pod), rel=1e-6)


def test_a_pod_that_is_removed_is_dropped_without_a_fault_and_its_descriptors_closed(host, collector, clock, paths):
    host.group(paths.one)
    tick(collector, clock)
    assert tick(collector, clock).pods.keys() == {UID}
    assert collector.statistics.open_files == 2
    host.remove(paths.pod)
    snapshot = tick(collector, clock)
    assert (snapshot.pods, snapshot.unmeasured_pods, snapshot.no_data) == ({}, frozenset(), ())
    assert collector.statistics.open_files == 0


def test_an_open_descriptor_of_a_removed_group_reveals_its_end(host, paths):
    host.group(paths.pod)
    budget = DescriptorBudget(1)
    file = CachedFile(str(host.folder("memory", paths.pod) / "memory.stat"), budget)
    assert file.read()
    assert budget.open_files == 1
    host.remove(paths.pod)
    with pytest.raises(OSError) as caught:
        file.read()
    assert caught.value.errno == errno.ENODEV
    file.close()


def test_a_pod_recreated_between_two_ticks_starts_again(host, collector, clock, paths):
    host.group(paths.one)
    host.end(spin(host, paths.one))
    tick(collector, clock)
    tick(collector, clock)
    host.remove(paths.pod)
    host.group(paths.pod)
    assert tick(collector, clock).pods == {}, "the counter of another group gives no rate"
    for _ in range(2):
        snapshot = tick(collector, clock)
    assert snapshot.pods[UID].cpu_cores == 0.0


def test_a_pod_killed_while_it_works_never_counts_as_system(host, collector, clock, paths):
    host.group(paths.one)
    process = spin(host, paths.one)
    tick(collector, clock)
    work(host, process, paths.one, 20 * 10**6)
    host.end(process)
    host.remove(paths.pod)
    snapshot = tick(collector, clock)
    assert snapshot.node is not None
    assert snapshot.system is None
    assert tick(collector, clock).system is not None


def throttle(host, path):
    """Run into a limit until the kernel has throttled a few times, and stop."""
    process = host.run(path, "sh", "-c", SPIN)
    deadline = time.monotonic() + DEADLINE_SECONDS
    goal = host.throttling(path)[1] + FEWEST_PERIODS
    while host.throttling(path)[1] < goal:
        assert time.monotonic() < deadline, "the kernel does not throttle"
        time.sleep(0.02)
    host.end(process)
    before = None
    while before != (before := host.throttling(path)):
        time.sleep(0.25)  # the timer of a limit continues for some periods


def test_the_throttled_share_of_a_pod_is_that_of_the_container_that_reached_its_limit(host, collector, clock, paths):
    for path in (paths.one, paths.two):
        host.group(path)
    host.limit_cpu(paths.one, 0.05)
    throttle(host, paths.one)
    tick(collector, clock)
    waits = pod_pressure(collector).pods
    assert waits[UID].throttled_ratio is None, "counters from before the first reading are not of this agent's time"
    before = host.throttling(paths.one)
    throttle(host, paths.one)
    after = host.throttling(paths.one)
    for _ in range(POD_PRESSURE_TICKS):
        snapshot = tick(collector, clock)
    assert waits[UID].throttled_ratio == (after[1] - before[1]) / (after[0] - before[0])
    assert waits[UID].throttled_ratio > 0.25
    assert snapshot.no_data == ()


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="needs a kernel with pressure")
def test_pressure_of_the_machine_is_between_the_kernels_values_before_and_after(host, collector, clock):
    before = live_cgroups.waited_seconds(Path("/proc/pressure"), "")
    tick(collector, clock)
    after = live_cgroups.waited_seconds(Path("/proc/pressure"), "")
    found = node_pressure(collector).waited_seconds
    assert found.keys() == before.keys() == {"cpu", "memory", "io"}
    for resource, kinds in found.items():
        assert kinds.keys() == before[resource].keys()
        assert all(before[resource][kind] <= total <= after[resource][kind] for kind, total in kinds.items())


@needs_v2
def test_a_throttled_pod_has_the_pressure_that_the_kernel_counts(host, collector, clock, paths):
    host.group(paths.one)
    host.limit_cpu(paths.one, 0.05)
    throttle(host, paths.one)
    tick(collector, clock)
    found = pod_pressure(collector).pods[UID].waited_seconds
    assert found == live_cgroups.waited_seconds(host.folder("cpu", paths.pod), ".pressure")
    assert found["cpu"]["some"] > 0.1, "several periods of 100 ms, most of each without CPU"
    assert found["memory"] == {"some": 0.0, "full": 0.0}


@needs_v2
def test_a_pod_with_disabled_pressure_is_not_a_fault(host, collector, clock, paths):
    host.group(paths.pod)
    (host.folder("cpu", paths.pod) / "cgroup.pressure").write_text("0")
    snapshot = tick(collector, clock)
    assert collector.statistics.sources["pod pressure"].supported
    assert (pod_pressure(collector).pods[UID].waited_seconds, snapshot.no_data) == ({}, ())


def test_pods_that_come_and_go_between_ticks_are_followed_without_a_fault(host, collector, clock, paths):
    names, chance = GroupNames(paths.driver), random.Random(4)
    there: set[str] = set()
    host.group(str(names.qos("burstable")))
    for turn in range(40):
        for uid in chance.sample("abcdef", chance.choice((0, 0, 1, 2))):
            if uid in there:
                host.remove(str(names.pod(uid)))
            else:
                host.group(str(names.container(uid, f"{turn:063x}{uid}")))
            there ^= {uid}
        snapshot = tick(collector, clock)
        assert snapshot.no_data == ()
        assert snapshot.pods.keys() <= there
        assert snapshot.system is None or snapshot.pods.keys() == there, "what a pod used counts as system"
    tick(collector, clock)
    assert tick(collector, clock).pods.keys() == there
    assert collector.statistics.groups == len(there)


def test_the_rate_of_the_node_lies_between_what_the_kernel_counted_around_it(host, collector, clock):
    def busy_ticks():
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
        return user + nice + system + irq + softirq + steal

    earliest = busy_ticks()
    tick(collector, clock)
    at_least_from = busy_ticks()
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        pass
    at_least_to = busy_ticks()
    node = tick(collector, clock, seconds=100.0).node
    latest = busy_ticks()
    assert at_least_to - at_least_from <= round(node.cpu_cores * 100 * TICKS_PER_SECOND) <= latest - earliest
    assert node.cpu_cores > 0


@needs_v1
def test_a_pod_whose_memory_group_is_missing_is_named_and_then_costs_the_node_nothing(host, collector, clock, paths):
    host.group(paths.pod)
    host.folder("memory", paths.pod).rmdir()
    for _ in range(MOST_UNMEASURED_TICKS):
        snapshot = tick(collector, clock)
        assert (snapshot.unmeasured_pods, snapshot.system, snapshot.no_data) == ({UID}, None, ())
    snapshot = tick(collector, clock)
    assert (snapshot.unmeasured_pods, snapshot.pods_in_system) == (frozenset(), {UID})
    (no_data,) = snapshot.no_data
    assert no_data.path.endswith(f"{paths.pod}/memory.stat")
    assert no_data.reason == "the pod has a group in the hierarchy of the CPU and none in that of the memory"
    host.group(paths.pod)
    snapshot = tick(collector, clock)
    assert (snapshot.pods.keys(), snapshot.pods_in_system) == ({UID}, frozenset())

"""Counters of pods in a tree of plain files; `test_live_cgroups.py` has the same with real groups."""

from __future__ import annotations

import itertools

import pytest

from koordlet.collectors import pod_pressure
from koordlet.collectors.cgroup import discovery
from koordlet.collectors.cgroup.discovery import FollowedGroups
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.pod_pressure import POD_PRESSURE_TICKS, UNLIMITED_TURNS, PodPressure
from koordlet.samples import Resource
from tests.host_trees.plain_files import V1, V2, PlainHost
from tests.host_trees.ticks import collected

CID = "c" * 64
CPU_STAT = (
    "usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 5\n"
)
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n"


class Host:
    """A v2 host whose kernel counts everything."""

    def __init__(self, root, version=V2):
        self.files = PlainHost(root, version)
        self.statistics = CollectStatistics()
        self.pressure = PodPressure(self.statistics)
        self.pods = {}
        self._limited(self.files.cpu_mount / "kubepods", 0, 0)

    def _limited(self, folder, periods, throttled):
        (folder / "cpu.stat").write_text(CPU_STAT.format(periods=periods, throttled=throttled))
        for resource in ("cpu", "memory", "io"):
            (folder / f"{resource}.pressure").write_text(PRESSURE.format(total=2_000_000))

    def set_pod(self, uid, own, container):
        groups = self.files.pod(uid), self.files.container(uid, CID)
        for group, (periods, throttled) in zip(groups, (own, container), strict=True):
            if not (self.files.cpu_mount / group).exists():
                self.files.set_group(group, 0.0, 0)
            self._limited(self.files.cpu_mount / group, periods, throttled)
        self.pods[uid] = tuple(str(group) for group in groups)

    def tick(self, ticks=1):
        layout = discovery.probe(self.files.host_root.cgroup_root)
        return [collected(self.pressure, groups=FollowedGroups(layout, dict(self.pods))).no_data for _ in range(ticks)][
            -1
        ]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_a_pod_is_throttled_as_much_as_the_worst_of_its_groups(host):
    host.set_pod("a", own=(100, 10), container=(50, 5))
    host.tick()
    host.set_pod("a", own=(200, 20), container=(60, 11))
    host.tick(POD_PRESSURE_TICKS)
    assert host.pressure.pods["a"].throttled_ratio == 0.6


def test_a_group_that_gets_a_limit_has_a_ratio_after_five_turns_at_most(host):
    host.set_pod("a", own=(0, 0), container=(0, 0))
    host.tick(1 + POD_PRESSURE_TICKS)
    host.set_pod("a", own=(0, 0), container=(100, 40))
    turns = 1
    while host.pressure.pods["a"].throttled_ratio is None:
        host.tick(POD_PRESSURE_TICKS)
        turns += 1
    assert turns <= 1 + UNLIMITED_TURNS
    assert host.pressure.pods["a"].throttled_ratio == 0.4
    host.set_pod("a", own=(0, 0), container=(200, 120))
    host.tick(POD_PRESSURE_TICKS)
    assert host.pressure.pods["a"].throttled_ratio == 0.8


def test_a_recreated_group_has_no_ratio(host):
    host.set_pod("a", own=(100, 10), container=(50, 5))
    host.tick()
    for file in host.files.cpu_mount.rglob("cpu.stat"):
        file.rename(file.with_name("kept"))  # keeps the inode in use
    host.set_pod("a", own=(200, 20), container=(60, 11))
    (host.files.cpu_mount / "kubepods" / "kept").rename(host.files.cpu_mount / "kubepods" / "cpu.stat")
    host.tick(POD_PRESSURE_TICKS)
    assert host.pressure.pods["a"].throttled_ratio is None


def test_pressure_is_that_of_the_pods_own_group(host):
    host.set_pod("a", own=(0, 0), container=(0, 0))
    (host.files.cpu_mount / host.files.pod("a") / "io.pressure").write_text(PRESSURE.format(total=7_500_000))
    host.tick()
    assert host.pressure.pods["a"].waited_seconds == {
        "cpu": {"some": 2.0},
        "memory": {"some": 2.0},
        "io": {"some": 7.5},
    }


def test_the_wait_for_a_cpu_is_that_of_some_task_of_each_pod(host):
    host.set_pod("a", own=(0, 0), container=(0, 0))
    file = host.files.cpu_mount / host.files.pod("a") / "cpu.pressure"
    file.write_text(PRESSURE.format(total=7_500_000) + PRESSURE.format(total=1).replace("some", "full"))
    host.tick()
    assert pod_pressure.waits([host.pressure], Resource.CPU) == {"a": 7.5}


def test_every_pod_is_read_once_in_a_round_and_no_tick_reads_many(host):
    for number in range(2 * POD_PRESSURE_TICKS):
        host.set_pod(f"p{number}", own=(1, 1), container=(1, 1))
    host.tick()
    for number in range(2 * POD_PRESSURE_TICKS):
        host.set_pod(f"p{number}", own=(11, 11), container=(11, 11))
    known = []
    for _ in range(POD_PRESSURE_TICKS):
        host.tick()
        known.append(sum(stall.throttled_ratio == 1.0 for stall in host.pressure.pods.values()))
    assert known == [2 * turn for turn in range(1, POD_PRESSURE_TICKS + 1)]


def test_pods_that_come_and_go_before_a_pod_move_none_of_its_turns(host):
    host.set_pod("long", own=(0, 0), container=(0, 0))
    host.set_pod("short", own=(0, 0), container=(0, 0))
    long, short = host.pods["long"], host.pods["short"]
    file, seen = host.files.cpu_mount / host.files.pod("long") / "cpu.pressure", [0.0]
    for tick in range(1, 300):
        host.pods = {f"s{number}": short for number in range(tick, max(tick - tick % 7, 0), -1)} | {"long": long}
        file.write_text(PRESSURE.format(total=tick * 1_000_000))
        host.tick()
        seen.append(host.pressure.pods["long"].waited_seconds["cpu"]["some"])
    times = sorted(set(seen))
    assert [later - time for time, later in itertools.pairwise(times[2:])] == [POD_PRESSURE_TICKS] * (len(times) - 3)
    assert len(times) >= 6


def test_a_removed_pod_is_dropped_and_vanished_files_are_not_a_fault(host):
    host.set_pod("a", own=(1, 1), container=(1, 1))
    host.set_pod("b", own=(1, 1), container=(1, 1))
    host.tick()
    host.files.remove_group(host.files.pod("a"))
    assert host.tick(POD_PRESSURE_TICKS) == ()
    assert host.pressure.pods["a"].waited_seconds == {}
    del host.pods["a"]
    host.tick()
    assert host.pressure.pods.keys() == {"b"}


def test_an_invalid_file_is_no_data_with_its_path(host):
    host.set_pod("a", own=(1, 1), container=(1, 1))
    host.files.write(host.files.pod("a"), "cpu.stat", "usage_usec 5\n")
    wrong = host.tick()
    assert [(one.source, one.path) for one in wrong] == [
        ("pod throttling", f"{host.files.cpu_mount}/{host.files.pod('a')}/cpu.stat")
    ]
    assert host.statistics.sources["pod throttling"].failures == 1


def test_limits_of_v1_are_found_in_a_mount_of_their_own(tmp_path):
    host = Host(tmp_path, V1)
    bandwidth = host.files.host_root.cgroup_root / "cpu"
    host.set_pod("a", own=(10, 1), container=(10, 1))
    for file in host.files.cpu_mount.rglob("cpu.stat"):
        moved = bandwidth / file.relative_to(host.files.cpu_mount)
        moved.parent.mkdir(parents=True, exist_ok=True)
        file.rename(moved)
    host.tick()
    (bandwidth / host.files.pod("a") / "cpu.stat").write_text("nr_periods 20\nnr_throttled 5\nthrottled_time 9\n")
    host.tick(POD_PRESSURE_TICKS)
    assert host.pressure.pods["a"].throttled_ratio == 0.4

"""Pressure of pods whose groups are not found for a moment, and of hosts whose layout changes."""

from __future__ import annotations

import pytest

from koordlet.collectors.pod_pressure import POD_PRESSURE_TICKS
from tests.koordlet.collectors.test_pod_pressure import PRESSURE, Host
from tests.koordlet.test_agent_work import open_below


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_a_pod_that_is_there_again_begins_without_a_ratio(host):
    host.set_pod("a", own=(100, 10), container=(50, 5))
    host.tick()
    host.pressure.measure(None)
    assert host.pressure.pods == {}
    host.set_pod("a", own=(200, 20), container=(150, 15))
    host.tick()
    assert host.pressure.pods["a"].throttled_ratio is None
    host.set_pod("a", own=(300, 70), container=(250, 25))
    host.tick(POD_PRESSURE_TICKS)
    assert host.pressure.pods["a"].throttled_ratio == 0.5


def test_without_groups_for_a_moment_what_the_kernel_counts_is_still_known(host):
    host.set_pod("a", own=(1, 1), container=(1, 1))
    host.tick()
    host.pressure.measure(None)
    host.tick()
    assert host.pressure.pods["a"].waited_seconds["memory"] == {"some": 2.0}


def test_each_file_that_is_wrong_is_one_problem_until_the_next_reading(host):
    host.set_pod("a", own=(1, 1), container=(1, 1))
    folder = host.files.cpu_mount / host.files.pod("a")
    for resource in ("cpu", "io"):
        (folder / f"{resource}.pressure").write_text("nothing\n")
    wrong = host.tick()
    assert [each.path for each in wrong] == [f"{folder}/cpu.pressure", f"{folder}/io.pressure"]
    assert host.statistics.source("pod pressure").failures == 2
    assert host.tick() == wrong
    for resource in ("cpu", "io"):
        (folder / f"{resource}.pressure").write_text(PRESSURE.format(total=3_000_000))
    assert host.tick(POD_PRESSURE_TICKS) == ()
    assert host.pressure.pods["a"].waited_seconds["cpu"] == {"some": 3.0}


def test_a_reading_leaves_no_file_open(host, tmp_path):
    for name in ("a", "b"):
        host.set_pod(name, own=(1, 1), container=(1, 1))
    host.tick()
    assert host.pressure.pods.keys() == {"a", "b"}
    assert open_below(tmp_path) == []

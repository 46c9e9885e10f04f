"""The folder of all pods goes away, between two ticks or in the middle of one."""

from __future__ import annotations

import pytest

from koordlet.collectors.cgroup import layout as cgroup_layout
from koordlet.collectors.cgroup.discovery import FULL_SCAN_SECONDS, CgroupDiscovery
from tests.host_trees.plain_files import PlainHost


@pytest.fixture
def host(tmp_path):
    host = PlainHost(tmp_path / "host")
    for name in ("a", "b"):
        host.set_group(host.pod(name), 1.0, 1)
    return host


@pytest.fixture
def discovery(host):
    return CgroupDiscovery(host.host_root.cgroup_root)


def take_away(host, tmp_path):
    (host.host_root.cgroup_root / "kubepods").rename(tmp_path / "away")


def test_a_root_that_goes_away_during_a_full_scan_takes_its_pods_with_it(host, discovery, tmp_path, monkeypatch):
    assert discovery.refresh(0.0).pods.keys() == {"a", "b"}

    def strays(_mount):
        take_away(host, tmp_path)
        return {}

    monkeypatch.setattr(cgroup_layout, "pods_with_stray_containers", strays)
    assert discovery.refresh(FULL_SCAN_SECONDS).pods == {}


def test_while_the_root_is_away_nothing_changes(host, discovery, tmp_path):
    discovery.refresh(0.0)
    take_away(host, tmp_path)
    without = discovery.refresh(1.0)
    assert without.pods == {}
    assert discovery.refresh(2.0) is without


def test_a_root_that_is_there_again_brings_its_pods_back(host, discovery, tmp_path):
    discovery.refresh(0.0)
    take_away(host, tmp_path)
    discovery.refresh(1.0)
    (tmp_path / "away").rename(host.host_root.cgroup_root / "kubepods")
    assert discovery.refresh(2.0).pods.keys() == {"a", "b"}


def test_a_pod_whose_group_failed_is_found_again_with_its_containers(host, discovery):
    container = host.container("a", "c" * 64)
    host.set_group(container, 1.0, 1)
    before = discovery.refresh(0.0)
    discovery.invalidate(before.pods["a"].path)
    after = discovery.refresh(1.0)
    assert after.pods.keys() == {"a", "b"}
    assert after.pods["a"].containers == {"c" * 64: str(container)}

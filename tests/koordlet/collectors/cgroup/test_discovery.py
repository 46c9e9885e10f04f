"""Groups found, and the tick in which a change is found."""

from __future__ import annotations

import os

import pytest

from koordlet.collectors.cgroup.discovery import FULL_SCAN_SECONDS, CgroupDiscovery
from koordlet.samples import NoData
from tests.host_trees.plain_files import BESTEFFORT, BURSTABLE, CGROUPFS, GUARANTEED, SYSTEMD, V1, V2, PlainHost

UID = "2a9c3a50-4f1e-4e0c-9d51-0a5c3f2a7b1e"
CID = "c" * 64
NEW = "d" * 64


@pytest.fixture
def host(tmp_path):
    host = PlainHost(tmp_path)
    host.set_group(host.pod(UID), 1.0, 1)
    host.set_group(host.container(UID, CID), 1.0, 1)
    return host


@pytest.fixture
def discovery(host):
    return CgroupDiscovery(host.host_root.cgroup_root)


@pytest.mark.parametrize("nesting", ["", "kubelet"])
@pytest.mark.parametrize("driver", [CGROUPFS, SYSTEMD])
@pytest.mark.parametrize("version", [V1, V2])
def test_pods_of_every_class_and_their_containers_are_found_in_every_layout(tmp_path, version, driver, nesting):
    host = PlainHost(tmp_path, version, driver, nesting)
    for uid, qos in (("uid-1", GUARANTEED), ("uid-2", BURSTABLE), ("uid-3", BESTEFFORT)):
        host.set_group(host.pod(uid, qos), 1.0, 1)
        host.set_group(host.container(uid, CID, qos), 1.0, 1)
    found = CgroupDiscovery(host.host_root.cgroup_root).refresh(0.0)
    assert found.pods.keys() == {"uid-1", "uid-2", "uid-3"}
    assert found.pods["uid-2"].path == str(host.pod("uid-2", BURSTABLE))
    assert found.pods["uid-2"].containers == {CID: str(host.container("uid-2", CID, BURSTABLE))}


def test_the_monitor_of_a_cri_o_container_is_not_a_container(tmp_path):
    host = PlainHost(tmp_path, V2, SYSTEMD)
    host.set_group(host.container(UID, CID, runtime="crio"), 1.0, 1)
    host.set_group(host.container(UID, CID, runtime="crio-conmon"), 1.0, 1)
    found = CgroupDiscovery(host.host_root.cgroup_root).refresh(0.0)
    assert found.pods[UID].containers == {CID: str(host.container(UID, CID, runtime="crio"))}


def test_the_result_is_the_same_object_while_nothing_changes(discovery):
    first = discovery.refresh(0.0)
    assert all(discovery.refresh(tick) is first for tick in range(1, 20))


def test_a_new_pod_is_found_at_once_with_its_containers(host, discovery):
    discovery.refresh(0.0)
    host.set_group(host.container("new", NEW, BESTEFFORT), 1.0, 1)
    assert discovery.refresh(1.0).pods["new"].containers.keys() == {NEW}


def test_a_removed_pod_is_gone_at_once(host, discovery):
    discovery.refresh(0.0)
    host.remove_group(host.pod(UID))
    assert discovery.refresh(1.0).pods == {}


def test_a_new_container_of_a_known_pod_is_found_by_the_next_full_scan(host, discovery):
    discovery.refresh(0.0)
    host.set_group(host.container(UID, NEW), 1.0, 1)
    assert discovery.refresh(1.0).pods[UID].containers.keys() == {CID}
    assert discovery.refresh(FULL_SCAN_SECONDS).pods[UID].containers.keys() == {CID, NEW}


def test_a_quiet_tick_looks_at_the_folders_of_pods_only(host, discovery, monkeypatch):
    """Each costs one `stat`, whatever the number of pods."""
    for number in range(20):
        host.set_group(host.pod(f"uid-{number}"), 1.0, 1)
    discovery.refresh(0.0)
    looked_at = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **options: looked_at.append(path) or stat(path, **options))
    discovery.refresh(1.0)
    assert len(set(looked_at)) == 3, "the root, and two QoS classes in it"


def test_a_container_replaced_between_two_ticks_is_found_after_invalidate(host, discovery):
    old = discovery.refresh(0.0).pods[UID].containers[CID]
    host.remove_group(host.container(UID, CID))
    host.set_group(host.container(UID, NEW), 1.0, 1)
    discovery.invalidate(old)
    assert discovery.refresh(1.0).pods[UID].containers.keys() == {NEW}


def test_a_kubelet_that_starts_later_is_found_by_the_next_full_scan(tmp_path):
    host = PlainHost(tmp_path)
    kubepods = host.host_root.cgroup_root / "kubepods"
    kubepods.rename(tmp_path / "away")
    discovery = CgroupDiscovery(host.host_root.cgroup_root)
    assert isinstance(discovery.refresh(0.0), NoData)
    (tmp_path / "away").rename(kubepods)
    assert discovery.refresh(FULL_SCAN_SECONDS + 1).pods == {}


@pytest.fixture
def two_pods(tmp_path):
    two_pods = PlainHost(tmp_path / "two_pods")
    for name in ("a", "b"):
        two_pods.set_group(two_pods.pod(name), 1.0, 1)
    return two_pods

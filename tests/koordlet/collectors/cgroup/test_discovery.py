"""Groups found, and the tick in which a change is found."""

from __future__ import annotations

import os

import pytest

from koordlet.collectors.cgroup import discovery as cgroup_groups
from koordlet.collectors.cgroup.discovery import FULL_SCAN_SECONDS, CgroupDiscovery
from koordlet.collectors.cgroup.files import CgroupVersion
from koordlet.samples import NoData
from tests.host_trees.plain_files import BESTEFFORT, BURSTABLE, CGROUPFS, GUARANTEED, HYBRID, SYSTEMD, V1, V2, PlainHost

UID = "2a9c3a50-4f1e-4e0c-9d51-0a5c3f2a7b1e"
CID = "c" * 64
NEW = "d" * 64
STATIC_POD = "3f9d1c0b7a6e5d4c3b2a190817263544"


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
    for uid, qos in (("uid-1", GUARANTEED), ("uid-2", BURSTABLE), (STATIC_POD, BESTEFFORT)):
        host.set_group(host.pod(uid, qos), 1.0, 1)
        host.set_group(host.container(uid, CID, qos), 1.0, 1)
    found = CgroupDiscovery(host.host_root.cgroup_root).refresh(0.0)
    assert found.pods.keys() == {"uid-1", "uid-2", STATIC_POD}
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


def test_v2_is_one_hierarchy_for_both_controllers(tmp_path):
    root = PlainHost(tmp_path, V2).host_root.cgroup_root
    layout = cgroup_groups.probe(root)
    assert layout.cpu == layout.memory
    assert (layout.cpu.path, layout.cpu.version) == (root, CgroupVersion.V2)


@pytest.mark.parametrize("version", [V1, HYBRID])
def test_v1_has_a_hierarchy_for_each_controller_even_beside_v2(tmp_path, version):
    root = PlainHost(tmp_path, version).host_root.cgroup_root
    layout = cgroup_groups.probe(root)
    assert (layout.cpu.path, layout.cpu.version) == (root / "cpuacct", CgroupVersion.V1)
    assert (layout.memory.path, layout.memory.version) == (root / "memory", CgroupVersion.V1)


def test_a_joint_cpu_controller_is_found_without_its_link(tmp_path):
    root = PlainHost(tmp_path, V1).host_root.cgroup_root
    (root / "cpuacct").rename(root / "cpu,cpuacct")
    assert cgroup_groups.probe(root).cpu.path == root / "cpu,cpuacct"


def test_each_controller_is_read_where_it_is_when_v2_has_taken_over_memory(tmp_path):
    root = PlainHost(tmp_path, HYBRID).host_root.cgroup_root
    (root / "memory" / "memory.stat").unlink()
    (root / "unified" / "cgroup.controllers").write_text("memory pids\n")
    layout = cgroup_groups.probe(root)
    assert layout.cpu.version is CgroupVersion.V1
    assert (layout.memory.path, layout.memory.version) == (root / "unified", CgroupVersion.V2)


@pytest.mark.parametrize(
    ("driver", "nesting", "root_of_pods"),
    [
        (CGROUPFS, "", "kubepods"),
        (SYSTEMD, "", "kubepods.slice"),
        (CGROUPFS, "kubelet", "kubelet/kubepods"),
        (SYSTEMD, "kubelet", "kubelet.slice/kubelet-kubepods.slice"),
        (CGROUPFS, "docker/4f5e/kubelet", "docker/4f5e/kubelet/kubepods"),
    ],
)
@pytest.mark.parametrize("version", [V1, V2])
def test_the_root_of_pods_is_found_for_every_driver_and_nesting(tmp_path, version, driver, nesting, root_of_pods):
    root = PlainHost(tmp_path, version, driver, nesting).host_root.cgroup_root
    assert cgroup_groups.probe(root).roots_of_pods == (root_of_pods,)


def test_a_cluster_inside_a_container_is_part_of_that_container(tmp_path):
    host = PlainHost(tmp_path, V2)
    inner = host.container("outer", "a" * 64) / "kubelet" / "kubepods" / "podinner"
    host.set_group(inner, 1.0, 1)
    assert cgroup_groups.probe(host.host_root.cgroup_root).roots_of_pods == ("kubepods",)


def test_a_host_without_controllers_is_no_data_with_what_was_tried(tmp_path):
    found = cgroup_groups.probe(tmp_path)
    assert isinstance(found, NoData)
    assert (found.source, found.path) == ("cgroup controllers", str(tmp_path))
    assert found.reason.startswith("no cpu and no memory controller, neither v1 (cpuacct/ and memory/")


def test_only_the_missing_controller_is_named(tmp_path):
    root = PlainHost(tmp_path, V2).host_root.cgroup_root
    (root / "cgroup.controllers").write_text("cpuset cpu io pids\n")
    assert cgroup_groups.probe(root).reason.startswith("no memory controller,")


def test_a_host_without_a_kubelet_is_no_data_with_the_searched_depth(tmp_path):
    host = PlainHost(tmp_path, V2)
    for qos in ("burstable", "besteffort", ""):
        (host.host_root.cgroup_root / "kubepods" / qos).rmdir()
    (host.host_root.cgroup_root / "system.slice" / "ssh.service").mkdir(parents=True)
    found = cgroup_groups.probe(host.host_root.cgroup_root)
    assert found.source == "pod cgroups"
    assert found.reason.startswith("no kubepods or kubepods.slice in 2 groups, at most 8 levels deep")


ESCAPED = UID.replace("-", "_")
HEX_ID = "0123456789abcdef" * 4


@pytest.mark.parametrize("name", ["kubepods", "kubepods.slice", "kubelet-kubepods.slice", "a-b-kubepods.slice"])
def test_roots_of_pods_are_known_by_name(name):
    assert cgroup_groups.is_root_of_pods(name)


@pytest.mark.parametrize(
    "name",
    [
        HEX_ID,
        f"cri-containerd-{HEX_ID}.scope",
        f"crio-{HEX_ID}.scope",
        f"crio-{HEX_ID}",
        f"docker-{HEX_ID}.scope",
        f"libpod-{HEX_ID}.scope",
    ],
)
def test_the_id_of_a_container_is_in_its_name_under_every_runtime(name):
    assert cgroup_groups.container_id(name) == HEX_ID


@pytest.mark.parametrize(
    "name",
    [
        f"crio-conmon-{HEX_ID}.scope",
        f"crio-conmon-{HEX_ID}",
        f"libpod-conmon-{HEX_ID}.scope",
        "init.scope",
        "abc",
        f"pod{UID}",
    ],
)
def test_monitors_and_other_groups_are_no_containers(name):
    assert cgroup_groups.container_id(name) is None


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        (f"kubepods-burstable-pod{ESCAPED}.slice:cri-containerd:{HEX_ID}", UID),
        (f"kubelet-kubepods-pod{ESCAPED}.slice:crio:{HEX_ID}", UID),
        (f"kubepods-burstable-pod{ESCAPED}.slice", None),
        (f"cri-containerd-{HEX_ID}.scope", None),
        ("ssh.service", None),
    ],
)
def test_a_container_outside_its_pod_has_the_uid_in_its_name(name, uid):
    assert cgroup_groups.pod_uid_of_stray(name) == uid

"""Layouts detected in cgroup trees of hosts."""

from __future__ import annotations

import pytest

from koordlet.collectors.cgroup import layout
from koordlet.collectors.cgroup import layout as cgroup_layout
from koordlet.collectors.cgroup.files import CgroupVersion
from koordlet.samples import NoData
from tests.host_trees.plain_files import CGROUPFS, HYBRID, SYSTEMD, V1, V2, PlainHost


def test_v2_is_one_hierarchy_for_both_controllers(tmp_path):
    root = PlainHost(tmp_path, V2).host_root.cgroup_root
    layout = cgroup_layout.probe(root)
    assert layout.cpu == layout.memory
    assert (layout.cpu.path, layout.cpu.version) == (root, CgroupVersion.V2)


@pytest.mark.parametrize("version", [V1, HYBRID])
def test_v1_has_a_hierarchy_for_each_controller_even_beside_v2(tmp_path, version):
    root = PlainHost(tmp_path, version).host_root.cgroup_root
    layout = cgroup_layout.probe(root)
    assert (layout.cpu.path, layout.cpu.version) == (root / "cpuacct", CgroupVersion.V1)
    assert (layout.memory.path, layout.memory.version) == (root / "memory", CgroupVersion.V1)


def test_a_joint_cpu_controller_is_found_without_its_link(tmp_path):
    root = PlainHost(tmp_path, V1).host_root.cgroup_root
    (root / "cpuacct").rename(root / "cpu,cpuacct")
    assert cgroup_layout.probe(root).cpu.path == root / "cpu,cpuacct"


def test_each_controller_is_read_where_it_is_when_v2_has_taken_over_memory(tmp_path):
    root = PlainHost(tmp_path, HYBRID).host_root.cgroup_root
    (root / "memory" / "memory.stat").unlink()
    (root / "unified" / "cgroup.controllers").write_text("memory pids\n")
    layout = cgroup_layout.probe(root)
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
    assert cgroup_layout.probe(root).roots_of_pods == (root_of_pods,)


def test_a_cluster_inside_a_container_is_part_of_that_container(tmp_path):
    host = PlainHost(tmp_path, V2)
    inner = host.container("outer", "a" * 64) / "kubelet" / "kubepods" / "podinner"
    host.set_group(inner, 1.0, 1)
    assert cgroup_layout.probe(host.host_root.cgroup_root).roots_of_pods == ("kubepods",)


def test_a_host_without_controllers_is_no_data_with_what_was_tried(tmp_path):
    found = cgroup_layout.probe(tmp_path)
    assert isinstance(found, NoData)
    assert (found.source, found.path) == ("cgroup controllers", str(tmp_path))
    assert found.reason.startswith("no cpu and no memory controller, neither v1 (cpuacct/ and memory/")


def test_only_the_missing_controller_is_named(tmp_path):
    root = PlainHost(tmp_path, V2).host_root.cgroup_root
    (root / "cgroup.controllers").write_text("cpuset cpu io pids\n")
    assert cgroup_layout.probe(root).reason.startswith("no memory controller,")


def test_a_host_without_a_kubelet_is_no_data_with_the_searched_depth(tmp_path):
    host = PlainHost(tmp_path, V2)
    for qos in ("burstable", "besteffort", ""):
        (host.host_root.cgroup_root / "kubepods" / qos).rmdir()
    (host.host_root.cgroup_root / "system.slice" / "ssh.service").mkdir(parents=True)
    found = cgroup_layout.probe(host.host_root.cgroup_root)
    assert found.source == "pod cgroups"
    assert found.reason.startswith("no kubepods or kubepods.slice in 2 groups, at most 8 levels deep")


UID = "2a9c3a50-4f1e-4e0c-9d51-0a5c3f2a7b1e"
ESCAPED = UID.replace("-", "_")
STATIC_POD = "3f9d1c0b7a6e5d4c3b2a190817263544"
CID = "0123456789abcdef" * 4


@pytest.mark.parametrize("name", ["kubepods", "kubepods.slice", "kubelet-kubepods.slice", "a-b-kubepods.slice"])
def test_roots_of_pods_are_known_by_name(name):
    assert layout.is_root_of_pods(name)


@pytest.mark.parametrize(
    "name", ["burstable", "besteffort", "kubepods-burstable.slice", "kubelet-kubepods-besteffort.slice"]
)
def test_qos_classes_are_known_by_name(name):
    assert layout.is_qos_class(name)


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        (f"pod{UID}", UID),
        (f"kubepods-pod{ESCAPED}.slice", UID),
        (f"kubepods-burstable-pod{ESCAPED}.slice", UID),
        (f"kubepods-besteffort-pod{ESCAPED}.slice", UID),
        (f"kubelet-kubepods-burstable-pod{ESCAPED}.slice", UID),
        (f"pod{STATIC_POD}", STATIC_POD),
        (f"kubepods-burstable-pod{STATIC_POD}.slice", STATIC_POD),
    ],
)
def test_the_uid_of_a_pod_is_in_its_name_under_both_drivers(name, uid):
    assert layout.pod_uid(name) == uid


@pytest.mark.parametrize(
    "name",
    [
        CID,
        f"cri-containerd-{CID}.scope",
        f"crio-{CID}.scope",
        f"crio-{CID}",
        f"docker-{CID}.scope",
        f"libpod-{CID}.scope",
    ],
)
def test_the_id_of_a_container_is_in_its_name_under_every_runtime(name):
    assert layout.container_id(name) == CID


@pytest.mark.parametrize(
    "name",
    [f"crio-conmon-{CID}.scope", f"crio-conmon-{CID}", f"libpod-conmon-{CID}.scope", "init.scope", "abc", f"pod{UID}"],
)
def test_monitors_and_other_groups_are_no_containers(name):
    assert layout.container_id(name) is None


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        (f"kubepods-burstable-pod{ESCAPED}.slice:cri-containerd:{CID}", UID),
        (f"kubelet-kubepods-pod{ESCAPED}.slice:crio:{CID}", UID),
        (f"kubepods-burstable-pod{ESCAPED}.slice", None),
        (f"cri-containerd-{CID}.scope", None),
        ("ssh.service", None),
    ],
)
def test_a_container_outside_its_pod_has_the_uid_in_its_name(name, uid):
    assert layout.pod_uid_of_stray(name) == uid

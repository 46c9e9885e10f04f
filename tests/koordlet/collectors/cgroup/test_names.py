"""Meaning of the names of cgroup folders, with names seen on hosts."""

from __future__ import annotations

import pytest

from koordlet.collectors.cgroup import names as cgroup_names

UID = "2a9c3a50-4f1e-4e0c-9d51-0a5c3f2a7b1e"
ESCAPED = UID.replace("-", "_")
STATIC_POD = "3f9d1c0b7a6e5d4c3b2a190817263544"
CID = "0123456789abcdef" * 4


@pytest.mark.parametrize("name", ["kubepods", "kubepods.slice", "kubelet-kubepods.slice", "a-b-kubepods.slice"])
def test_roots_of_pods_are_known_by_name(name):
    assert cgroup_names.is_root_of_pods(name)


@pytest.mark.parametrize(
    "name", ["kubepods-burstable.slice", "kubelet", "system.slice", "kubepods2", "xkubepods.slice"]
)
def test_other_folders_are_no_roots(name):
    assert not cgroup_names.is_root_of_pods(name)


@pytest.mark.parametrize(
    "name", ["burstable", "besteffort", "kubepods-burstable.slice", "kubelet-kubepods-besteffort.slice"]
)
def test_qos_classes_are_known_by_name(name):
    assert cgroup_names.is_qos_class(name)


@pytest.mark.parametrize("name", [f"pod{UID}", f"kubepods-pod{ESCAPED}.slice", "kubepods.slice", CID])
def test_other_folders_are_no_qos_classes(name):
    assert not cgroup_names.is_qos_class(name)


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
    assert cgroup_names.pod_uid(name) == uid


@pytest.mark.parametrize("name", ["pod", "burstable", "kubepods-burstable.slice", "user.slice", f"cri-{CID}.scope"])
def test_other_folders_are_no_pods(name):
    assert cgroup_names.pod_uid(name) is None


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
    assert cgroup_names.container_id(name) == CID


@pytest.mark.parametrize(
    "name",
    [f"crio-conmon-{CID}.scope", f"crio-conmon-{CID}", f"libpod-conmon-{CID}.scope", "init.scope", "abc", f"pod{UID}"],
)
def test_monitors_and_other_groups_are_no_containers(name):
    assert cgroup_names.container_id(name) is None


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
    assert cgroup_names.pod_uid_of_stray(name) == uid

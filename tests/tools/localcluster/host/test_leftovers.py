"""Differences of a machine before and after."""

import dataclasses
import socket
from pathlib import Path

import pytest

from tools.localcluster.host import leftovers
from tools.localcluster.host.leftovers import Machine

BEFORE = Machine(
    mounts=["/", "/proc"],
    links=["eth0", "lo"],
    cgroups=[],
    folders=["/var/lib/cni"],
    rules={"iptables": ["filter: -A INPUT -j MINE"]},
    tables={"iptables": ["filter"]},
    kernel_settings={"net/ipv4/ip_forward": "0", "kernel/panic": "1"},
)


def after(**changes):
    return dataclasses.replace(BEFORE, **changes)


def test_an_unchanged_machine_has_no_leftovers():
    assert leftovers.differences(BEFORE, after()) == []


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"mounts": ["/", "/proc", "/run/x"]}, "mount: /run/x"),
        ({"links": ["cni0", "eth0", "lo"]}, "link: cni0"),
        ({"cgroups": ["/sys/fs/cgroup/cpu/kubepods"]}, "cgroup: /sys/fs/cgroup/cpu/kubepods"),
        ({"folders": ["/var/lib/cni", "/var/lib/cni/results"]}, "folder: /var/lib/cni/results"),
        ({"rules": {"iptables": ["filter: -A INPUT -j MINE", "nat: :KUBE-X -"]}}, "iptables: nat: :KUBE-X -"),
        (
            {"kernel_settings": {"net/ipv4/ip_forward": "1", "kernel/panic": "1"}},
            "kernel setting net.ipv4.ip_forward: 1, was 0",
        ),
    ],
)
def test_every_kind_of_leftover_is_named(changes, reported):
    assert leftovers.differences(BEFORE, after(**changes)) == [reported]


@pytest.mark.parametrize("kind", ["mounts", "folders"])
def test_a_network_namespace_is_a_leftover_only_with_the_name_of_a_pods(kind):
    folder = "/run/netns"
    names = [folder, f"{folder}/another-program", f"{folder}/cni-1f0c"]
    found = leftovers.differences(BEFORE, after(**{kind: [*getattr(BEFORE, kind), *names]}))
    assert found == [f"{kind.removesuffix('s')}: {folder}/cni-1f0c"]


@pytest.mark.skipif(not Path("/etc/debian_version").exists(), reason="needs Debian")
def test_a_package_that_was_installed_meanwhile_is_not_a_leftover():
    folders = ["/var/lib/cni", "/etc/debian_version", "/etc/no-package-has-this"]
    assert leftovers.differences(BEFORE, after(folders=folders)) == ["folder: /etc/no-package-has-this"]


def test_a_socket_is_a_leftover_once_no_process_listens_on_it(tmp_path):
    used, left = tmp_path / "used" / "s", tmp_path / "left" / "s"
    for path in (used, left):
        path.parent.mkdir()
    names = [str(path) for each in (used, left) for path in (each.parent, each)]
    with socket.socket(socket.AF_UNIX) as open_one, socket.socket(socket.AF_UNIX) as closed_one:
        for server, path in ((open_one, used), (closed_one, left)):
            server.bind(str(path))
        open_one.listen()
        found = leftovers.differences(BEFORE, after(folders=[*BEFORE.folders, str(tmp_path), *names]))
    assert found == [f"folder: {left.parent}", f"folder: {left}"]

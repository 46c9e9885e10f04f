"""Leftovers of a cluster on a machine: recorded before the first `up`, restored and compared after `down`.

Other programs change the machine meanwhile, so only what clusters are known to leave is compared: mounts, links,
control groups of pods, the folders below, firewall rules, and kernel settings that change seldom. Processes are
identified by the mark that they inherit (`processes.MARK`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.localcluster.host import debian_packages, firewall, network
from tools.localcluster.layout import NODES_LINK

CGROUPS = Path("/sys/fs/cgroup")
CGROUPS_WATCHED = ("kubepods*", "k8s.io*", "cri-containerd*")
KERNEL_SETTINGS = Path("/proc/sys")
KERNEL_SETTINGS_WATCHED = (
    "kernel/panic", "kernel/panic_on_oops", "kernel/keys", "kernel/pid_max", "vm", "fs/inotify", "net/bridge",
    "net/core", "net/ipv4", "net/ipv6/conf/all", "net/ipv6/conf/default", "net/netfilter",
)  # fmt: skip
# Counters, and the settings of single links, which exist as long as the links.
KERNEL_SETTINGS_ALIVE = re.compile(
    r"nf_conntrack_count|/(conf|neigh)/(?!all/|default/)|nr_hugepages|vm/stat_refresh|route/flush"
)
FOLDERS_WATCHED = (
    "/etc/cni", "/etc/containerd", "/etc/containers", "/etc/kubernetes", "/opt/cni", "/opt/containerd", "/run/cni",
    "/run/containerd", "/run/containers", "/run/flannel", "/run/netns", "/run/koord-suite", "/usr/libexec/kubernetes",
    "/var/lib/cni", "/var/lib/containerd", "/var/lib/containers", "/var/lib/etcd", "/var/lib/kubelet",
    "/var/log/containers", "/var/log/pods",
)  # fmt: skip
NETWORK_NAMESPACES = Path("/run/netns")
NETWORK_NAMESPACES_OF_PODS = "cni-"
"""Start of containerd's names for network namespaces of pods, which the cluster keeps elsewhere; other names belong to
other programs.
"""


@dataclass(frozen=True)
class Machine:
    """State of the machine at one time.

    mounts, links, cgroups: names. folders: files and folders up to two levels below those watched. rules: iptables
    command -> its significant rules. tables: iptables command -> its tables, empty ones too (not compared).
    kernel_settings: path below /proc/sys -> value.
    """

    mounts: list[str]
    links: list[str]
    cgroups: list[str]
    folders: list[str]
    rules: dict[str, list[str]]
    tables: dict[str, list[str]]
    kernel_settings: dict[str, str]

    def to_json(self) -> str:
        """Return the state as JSON, for the state folder."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Machine:
        """Return the state that `to_json` wrote."""
        return cls(**json.loads(text))


def observe() -> Machine:
    """Return the state of the machine now. Needs root for the firewall rules."""
    saved = firewall.saved()
    return Machine(
        mounts=mount_points(),
        links=sorted(network.links()),
        cgroups=sorted(str(path) for path in kubernetes_cgroups()),
        folders=sorted(str(path) for folder in FOLDERS_WATCHED for path in _up_to_two_levels(Path(folder))),
        rules={command: firewall.significant(rules) for command, rules in saved.items()},
        tables={command: firewall.tables(rules) for command, rules in saved.items()},
        kernel_settings=dict(_kernel_settings()),
    )


def mount_points() -> list[str]:
    """Return the mount points of this mount namespace."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return sorted({line.split()[4].encode().decode("unicode_escape") for line in lines})


def kubernetes_cgroups() -> list[Path]:
    """Return the top control groups of pods: one (v2), or one per controller (v1)."""
    return [path for pattern in CGROUPS_WATCHED for depth in ("", "*/") for path in CGROUPS.glob(depth + pattern)]


def _up_to_two_levels(folder: Path) -> Iterable[Path]:
    return [path for path in [folder, *folder.glob("*"), *folder.glob("*/*")] if path.exists() or path.is_symlink()]


def _kernel_settings() -> Iterable[tuple[str, str]]:
    for watched in KERNEL_SETTINGS_WATCHED:
        root = KERNEL_SETTINGS / watched
        for file in [root] if root.is_file() else root.rglob("*"):
            name = str(file.relative_to(KERNEL_SETTINGS))
            if not KERNEL_SETTINGS_ALIVE.search(name) and file.is_file() and os.access(file, os.R_OK):
                with contextlib.suppress(OSError):
                    yield name, file.read_text().strip()


def differences(before: Machine, after: Machine) -> list[str]:
    """Return one line for everything that is new or has another value.

    Files of a Debian package are not named: packages may be installed while the cluster is up. Neither are network
    namespaces of other programs, nor their folder, which `ip netns` makes too, nor the link of the provider `nodes`,
    nor sockets on which a process listens and their folders: the cluster's processes have ended, so that it is another
    program, as a Docker Engine that keeps the sockets of its containers where the cluster's containerd does.
    """
    found = []
    for kind in ("mounts", "links", "cgroups", "folders"):
        new = set(getattr(after, kind)) - set(getattr(before, kind))
        new = {name for name in new if not _is_network_namespace_of_others(Path(name)) and name != NODES_LINK}
        if kind == "folders":
            new -= debian_packages.contained(sorted(new))
            used = [Path(name) for name in new if _is_listened_on(Path(name))]
            new -= {str(path) for socket_file in used for path in (socket_file, *socket_file.parents)}
        found += [f"{kind.removesuffix('s')}: {name}" for name in sorted(new)]
    for command, rules in after.rules.items():
        known = before.rules.get(command, [])
        found += [f"{command}: {rule}" for rule in rules if rule not in known]
    for name, value in after.kernel_settings.items():
        was = before.kernel_settings.get(name)
        if was is not None and was != value:
            found.append(f"kernel setting {name.replace('/', '.')}: {value}, was {was}")
    return found


def _is_listened_on(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
        client.settimeout(1)
        client.connect(str(path))
        return True
    return False


def _is_network_namespace_of_others(path: Path) -> bool:
    if not path.is_relative_to(NETWORK_NAMESPACES):
        return False
    return not path.name.startswith(NETWORK_NAMESPACES_OF_PODS)

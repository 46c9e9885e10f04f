"""Restore the machine: the steps of `down` after the control plane has ended.

Every step removes only what this cluster made: below its own folders, by its own names, or new since `before` and
empty. Everything else stays, and `leftovers.differences` names it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tools.localcluster import node
from tools.localcluster.host import commands, firewall, leftovers, network
from tools.localcluster.host.leftovers import Machine
from tools.localcluster.layout import Layout

CNI_RESULTS = Path("/var/lib/cni/results")
KUBELET_FIXED_FOLDER = Path("/var/lib/kubelet")  # device plugins are there with any --root-dir
POD_LOG_LINKS = Path("/var/log/containers")


def end_pods(places: Layout) -> None:
    """Kill every container of the cluster's containerd, which must run; the shims end with them."""
    tasks = commands.run(node.ctr(places, "tasks", "list", "--quiet")).split()
    if tasks:
        commands.succeeds(node.ctr(places, "tasks", "delete", "--force", *tasks), timeout_seconds=60)
    containers = commands.run(node.ctr(places, "containers", "list", "--quiet")).split()
    if containers:
        commands.succeeds(node.ctr(places, "containers", "delete", *containers), timeout_seconds=60)


def restore(places: Layout, before: Machine) -> None:
    """Undo what the cluster did to the machine, once none of its processes runs."""
    unmount_below([places.state, places.run, KUBELET_FIXED_FOLDER])
    network.remove_bridge()
    firewall.remove_cluster_rules(before.tables)
    _restore_kernel_settings(before)
    for group in leftovers.kubernetes_cgroups():
        if str(group) not in before.cgroups:
            _remove_empty_folders(group)
    _remove_files(places, before)
    shutil.rmtree(places.run, ignore_errors=True)


def restore_unrecorded(places: Layout) -> None:
    """Undo what a cluster did whose record of the machine is lost: all but kernel settings and folders of the system.

    Folders like /var/lib/kubelet stay, because another Kubernetes of this machine may have made them.
    """
    restore(places, dataclasses.replace(leftovers.observe(), cgroups=[]))


def unmount_below(folders: Iterable[Path]) -> None:
    """Unmount everything at or below these folders, the deepest first."""
    mounted = [point for point in leftovers.mount_points() if any(Path(point).is_relative_to(f) for f in folders)]
    for point in sorted(mounted, key=lambda path: path.count("/"), reverse=True):
        if not commands.succeeds(["umount", point]):
            commands.succeeds(["umount", "--lazy", point])


def _restore_kernel_settings(before: Machine) -> None:
    for name, value in leftovers.observe().kernel_settings.items():
        was = before.kernel_settings.get(name)
        if was is not None and was != value:
            with contextlib.suppress(OSError):
                (leftovers.KERNEL_SETTINGS / name).write_text(was)


def _remove_files(places: Layout, before: Machine) -> None:
    for result in CNI_RESULTS.glob("koord-suite-*"):
        sandbox = result.name.removeprefix("koord-suite-").removesuffix("-eth0")
        (CNI_RESULTS / f"cni-loopback-{sandbox}-lo").unlink(missing_ok=True)
        result.unlink()
    for link in POD_LOG_LINKS.glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(places.state):
            link.unlink()
    if str(KUBELET_FIXED_FOLDER) not in before.folders:
        shutil.rmtree(KUBELET_FIXED_FOLDER, ignore_errors=True)
    for watched in leftovers.FOLDERS_WATCHED:
        if watched not in before.folders:
            _remove_empty_folders(Path(watched))


def _remove_empty_folders(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()

"""Disk of the nodes: Debian with systemd, containerd and runc from their Go modules, kubelet and kube-proxy.

All nodes read the same file; what a node writes is in a file of its own.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tools.localcluster import content_cache, go_binaries, progress
from tools.localcluster.host import commands

SUITE: Final = "bookworm"
PACKAGES: Final = (
    "conntrack", "dbus", "ethtool", "iproute2", "kmod", "mount", "nftables", "procps", "socat",
    "systemd-sysv", "util-linux",
)  # fmt: skip
FILES: Final = Path(__file__).parent / "disk_files"
MODULE: Final = Path(__file__).parent / "go"
RUNTIME: Final = (
    "github.com/containerd/containerd/v2/cmd/containerd",
    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    "github.com/containerd/containerd/v2/cmd/ctr",
)
RUNC: Final = "github.com/opencontainers/runc"
NETWORK: Final = tuple(
    f"github.com/containernetworking/plugins/plugins/{name}"
    for name in ("ipam/host-local", "main/bridge", "main/loopback", "meta/portmap")
)
SIZE: Final = "8G"  # sparse
_MASKED: Final = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
    "fstrim.timer", "getty.target", "systemd-logind.service", "systemd-random-seed.service",
)  # fmt: skip
_UNITS: Final = "etc/systemd/system"


def root(kubernetes: Path) -> Path:
    """Return the disk with kubelet and kube-proxy of a folder of programs, built on first use."""
    debian, programs = _debian(), runtime()
    key = content_cache.digest(FILES, SIZE, " ".join(_MASKED), debian.parent.name, programs.name, kubernetes.name)
    return content_cache.folder("node-disk", key, lambda folder: _build(folder, debian, programs, kubernetes)) / "root"


def _debian() -> Path:
    key = content_cache.digest(SUITE, " ".join(PACKAGES))

    def build(folder: Path) -> None:
        unused = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
        words = ["--quiet", "--variant=minbase", "--mode=root", f"--include={','.join(PACKAGES)}", *unused]
        with progress.step(f"making the root of a node from Debian {SUITE} packages"):
            commands.download(["mmdebstrap", *words, SUITE, folder / "root.tar"])

    return content_cache.folder("node-root", key, build) / "root.tar"


def runtime() -> Path:
    """Return the folder with containerd, runc and the CNI plugins, built on first use. Raises ClusterProblem."""
    key = content_cache.digest(MODULE, " ".join((*RUNTIME, *NETWORK, RUNC)))

    def build(folder: Path) -> None:
        go_binaries.build_into([*RUNTIME, *NETWORK], "-s -w", MODULE, folder)
        static = "-s -w -extldflags=-static"  # the library of this machine may be newer than that of the node
        go_binaries.build_into([RUNC], static, MODULE, folder, c_tags="seccomp,netgo,osusergo")

    return content_cache.folder("node-runtime", key, build)


def _build(folder: Path, debian: Path, tools: Path, kubernetes: Path) -> None:
    tree = folder / "tree"
    with progress.step("making the disk of a node"):
        tree.mkdir()
        commands.run(["tar", "--extract", "--file", debian, "--directory", tree, "--exclude=./dev/*"])
        programs = [kubernetes / "kubelet", kubernetes / "kube-proxy"]
        programs += [tools / package.rpartition("/")[2] for package in (*RUNTIME, RUNC)]
        _install(programs, tree / "usr/local/bin", 0o755)
        _install([tools / package.rpartition("/")[2] for package in NETWORK], tree / "opt/cni/bin", 0o755)
        _install([FILES / "node-setup"], tree / "usr/local/sbin", 0o755)
        _install([FILES / "journald.conf"], tree / "etc/systemd/journald.conf.d", 0o644)
        _install([FILES / "containerd.toml"], tree / "etc/containerd", 0o644)
        (tree / "etc/containerd/containerd.toml").rename(tree / "etc/containerd/config.toml")
        services = sorted(FILES.glob("*.service"))
        _install(services, tree / _UNITS, 0o644)
        _link_units(tree, [service.name for service in services])
        for name in ("etc/fstab", "etc/machine-id"):
            (tree / name).write_text("")
        write_file_system(tree, folder / "root")
        shutil.rmtree(tree)


def write_file_system(tree: Path, file: Path) -> None:
    """Write a disk that holds the content of a folder. It is sparse."""
    commands.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", tree, file, SIZE])


def _install(files: list[Path], target: Path, mode: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, target / file.name)
        (target / file.name).chmod(mode)


def _link_units(tree: Path, services: list[str]) -> None:
    """Start the services at boot, and nothing that a node does not need."""
    started = tree / _UNITS / "multi-user.target.wants"
    started.mkdir(exist_ok=True)
    for name in services:
        (started / name).symlink_to(f"../{name}")
    for name in _MASKED:
        (tree / _UNITS / name).unlink(missing_ok=True)
        (tree / _UNITS / name).symlink_to("/dev/null")
    default = tree / _UNITS / "default.target"
    default.unlink(missing_ok=True)
    default.symlink_to("/lib/systemd/system/multi-user.target")

"""Programs that the local cluster takes from the distribution.

On Debian, as root, missing packages are installed; elsewhere the error names them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.localcluster import progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

PATHS_BY_PACKAGE: dict[str, tuple[str, ...]] = {
    "runc": ("runc",),
    "containerd": ("containerd", "ctr"),
    "containernetworking-plugins": ("/usr/lib/cni/bridge", "/usr/lib/cni/portmap"),
    "conntrack": ("conntrack",),
    "dnsmasq-base": ("dnsmasq",),
    "ethtool": ("ethtool",),
    "gcc": ("gcc",),
    "iproute2": ("ip",),
    "iptables": ("iptables-save", "iptables-restore"),
    "libc6-dev": ("/usr/include/stdio.h",),
    "nftables": ("nft",),
    "openssl": ("openssl",),
    "socat": ("socat",),
}
"""Debian package -> programs (searched on PATH) and files (absolute paths) that show its presence."""


def is_installed(wanted: str) -> bool:
    """Return whether a program is on PATH (or in an sbin folder, which a user's PATH often lacks), or a file exists."""
    if wanted.startswith("/"):
        return Path(wanted).exists()
    return shutil.which(wanted, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None


def missing(
    is_there: Callable[[str], bool] = is_installed, wanted: Mapping[str, tuple[str, ...]] = PATHS_BY_PACKAGE
) -> dict[str, list[str]]:
    """Return the packages that are not fully installed, each with its missing programs and files."""
    gaps = {package: [p for p in paths if not is_there(p)] for package, paths in wanted.items()}
    return {package: paths for package, paths in gaps.items() if paths}


def ensure(wanted: Mapping[str, tuple[str, ...]] = PATHS_BY_PACKAGE) -> None:
    """Install what is missing. Raises ClusterProblem with the missing programs where apt-get is missing."""
    gaps = missing(wanted=wanted)
    if not gaps:
        return
    packages = sorted(gaps)
    absent = ", ".join(path for paths in gaps.values() for path in paths)
    if shutil.which("apt-get") is None:
        raise ClusterProblem(
            f"missing programs: {absent}; install them (on Debian: {' '.join(packages)}) and try again"
        )
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    options = ["-o", "Dpkg::Use-Pty=0", "--no-install-recommends", "--yes"]
    # The packages must not start services: this cluster runs a containerd of its own.
    with progress.step(f"installing Debian packages {' '.join(packages)}"), _services_stay_down():
        commands.download(["apt-get", "update"], environment=quiet)
        commands.download(["apt-get", "install", *options, *packages], environment=quiet)
    if still := missing(wanted=wanted):
        raise ClusterProblem(f"installed {' '.join(packages)}, and still missing: {still}")


def contained(paths: Sequence[str]) -> set[str]:
    """Return the paths that are in an installed package; none of them where there is no dpkg."""
    if not paths or shutil.which("dpkg-query") is None:
        return set()
    words = ["dpkg-query", "--search", *paths]
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout  # exits with 1 for other paths
    return {line.rpartition(": ")[2] for line in listed.splitlines()} & set(paths)


class _services_stay_down:  # noqa: N801 -- reads as a phrase in a with statement
    """Let Debian's policy-rc.d exit with 101, so that packages start no service. An existing policy is kept."""

    policy = Path("/usr/sbin/policy-rc.d")

    def __enter__(self) -> None:
        self.made_here = not self.policy.exists()
        if self.made_here:
            self.policy.write_text("#!/bin/sh\nexit 101\n")
            self.policy.chmod(0o755)

    def __exit__(self, *_: object) -> None:
        if self.made_here:
            self.policy.unlink(missing_ok=True)

"""Kernel and root file system of the virtual machine: Debian's cloud kernel, and the Python base image on ext4.

Built once (under a minute) and cached under the hash of the inputs. The code under test is not in it.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.images import debian, file_trees
from tools.images.distributions import CONSTRAINTS
from tools.localcluster import content_cache, image_archives, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

PACKAGES = {"mmdebstrap": ("mmdebstrap",), "e2fsprogs": ("mke2fs",), "qemu-system-x86": ("qemu-system-x86_64",)}
"""Required Debian packages, with the programs that show their presence."""
KERNEL = "linux-image-cloud-amd64"
"""The package that depends on the newest kernel: drivers of serial port, NVMe and ext4 are built in, no modules."""
LIBRARIES = ("msgspec", "pytest")
INIT = Path(__file__).parent / "guest_init.py"
SIZE = "320M"  # sparse; half of it is free
# The kernel prints `Depends: linux-image-6.1.0-NN-cloud-amd64`; mmdebstrap's own apt sees the suite of the guest.
FETCH_KERNEL = f"""
set -e
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
cd "$1/tmp"
apt-get -qq download "$(apt-cache depends {KERNEL} | sed -n 's/.*Depends: //p' | head -1)"
dpkg-deb --extract linux-image-*.deb .
cp boot/vmlinuz-* "$1/vmlinuz"
"""


@dataclass(frozen=True)
class Image:
    """Kernel and root file system for qemu."""

    kernel: Path
    root: Path


def image() -> Image:
    """Return kernel and root file system, built on first use. Needs root."""
    key = content_cache.digest(
        KERNEL, FETCH_KERNEL, Path(debian.__file__), " ".join(LIBRARIES), SIZE, INIT, CONSTRAINTS,
    )  # fmt: skip
    folder = content_cache.folder("numa-vm", key, _build)
    return Image(folder / "vmlinuz", folder / "root.ext4")


def _build(folder: Path) -> None:
    here = image_archives.architecture()
    packages = debian.packages(here, (*debian.PYTHON, *debian.SHELL))
    with progress.step("making a virtual machine with two NUMA nodes"), tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        _fetch_kernel(Path(scratch) / "kernel", folder / "vmlinuz")
        file_trees.write_to(debian.root(packages, here), root)
        (root / "site").mkdir()
        (root / "init").write_bytes(INIT.read_bytes())
        (root / "init").chmod(0o755)
        commands.download(
            [
                sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
                "--only-binary=:all:", f"--python-version={debian.PYTHON_VERSION}", "--implementation=cp",
                f"--target={root / 'site'}", f"--constraint={CONSTRAINTS}", *LIBRARIES,
            ]
        )  # fmt: skip
        compiling = "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/site"
        commands.run(["chroot", root, "/usr/bin/python3", *compiling])
        commands.run(
            ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", root, folder / "root.ext4", SIZE]
        )


def _fetch_kernel(scratch: Path, kernel: Path) -> None:
    commands.run(
        [
            "mmdebstrap", "--quiet", "--variant=extract", "--include=base-files",
            f"--extract-hook={FETCH_KERNEL}", debian.SUITE, scratch,
        ]
    )  # fmt: skip
    found = scratch / "vmlinuz"
    if not found.is_file():
        raise ClusterProblem(f"{KERNEL} of Debian {debian.SUITE}: no kernel in it; one boot/vmlinuz-* is wanted")
    kernel.write_bytes(found.read_bytes())

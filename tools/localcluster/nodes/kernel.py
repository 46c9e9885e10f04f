"""Kernel of the nodes: user-mode Linux from Debian's source package, with the options of `kernel.config` built in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from tools.localcluster import content_cache, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

SUITE: Final = "sid"
PACKAGE: Final = "linux-source"
"""Package that depends on the newest source. User-mode Linux has several CPUs and seccomp since 6.19."""
CONFIGURATION: Final = Path(__file__).parent / "kernel.config"
CLOCK: Final = Path(__file__).parent / "sched_clock.c"
_ARCHITECTURE: Final = {"ARCH": "um", "SUBARCH": "x86_64"}
_TARGET: Final = "linux"
_EVENTS: Final = ("arch/um/os-Linux/irq.c", "#define MAX_EPOLL_EVENTS 64", "#define MAX_EPOLL_EVENTS 1")
"""File, text and its replacement. While an event is handled, others arrive and overwrite the list that it is in: the
events behind it are lost. When one of the disk is lost, the node hangs. A list of one event has none behind it.
"""
_OBJECTS: Final = 1070  # of version 7.2


def linux() -> Path:
    """Return the program that is the kernel, built on first use (20 minutes of CPU time). Raises ClusterProblem."""
    key = content_cache.digest(CONFIGURATION, CLOCK, SUITE, PACKAGE, *_EVENTS)
    return content_cache.folder("node-kernel", key, _build) / _TARGET


def lacking(wanted: str, configured: str) -> list[str]:
    """Return the options `NAME=y` that `wanted` has and a kernel's configuration has not."""
    there = set(configured.splitlines())
    return [line for line in wanted.splitlines() if line.endswith("=y") and line not in there]


def _build(folder: Path) -> None:
    packages, source, objects = (folder / name for name in ("packages", "source", "objects"))
    with progress.step(f"fetching the source of Linux from Debian {SUITE}"):
        old_lists = 'Acquire::Check-Valid-Until "false"'  # a mirror's copy of sid may have expired
        words = ["--quiet", "--variant=extract", f"--aptopt={old_lists}", f"--include={PACKAGE}", SUITE, packages]
        commands.download(["mmdebstrap", *words])
        (archive,) = (packages / "usr" / "src").glob("linux-source-*.tar.xz")
        source.mkdir()
        commands.run(["tar", "--extract", "--file", archive, "--directory", source, "--strip-components=1"])
    with (source / "arch" / "um" / "kernel" / "time.c").open("a") as file:
        file.write(CLOCK.read_text())
    _replace(source, *_EVENTS)
    _make(source, objects, "x86_64_defconfig")
    merge = source / "scripts" / "kconfig" / "merge_config.sh"
    commands.run(["sh", merge, "-m", "-O", objects, objects / ".config", CONFIGURATION], environment=_ARCHITECTURE)
    _make(source, objects, "olddefconfig")
    if missing := lacking(CONFIGURATION.read_text(), (objects / ".config").read_text()):
        raise ClusterProblem(f"{source}: this kernel has no {', '.join(missing)}; want all of {CONFIGURATION}")
    with progress.step(
        "building Linux", so_far=lambda: f"({len([*objects.rglob('*.o')])} of about {_OBJECTS} objects)"
    ):
        _make(source, objects, f"--jobs={os.cpu_count()}", _TARGET)
    commands.run(["strip", "-o", folder / _TARGET, objects / _TARGET])
    commands.run(["rm", "-rf", packages, source, objects])


def _replace(source: Path, file: str, text: str, replacement: str) -> None:
    content = (source / file).read_text()
    if text not in content:
        raise ClusterProblem(f"{source / file}: want `{text}` in it, to replace it by `{replacement}`")
    (source / file).write_text(content.replace(text, replacement))


def _make(source: Path, objects: Path, *words: str) -> None:
    objects.mkdir(exist_ok=True)
    # Everything waits for the programs in Go, which are built beside it.
    argv = ["nice", "make", "--silent", f"--directory={source}", f"O={objects}", *words]
    ended = subprocess.run(argv, env={**os.environ, **_ARCHITECTURE}, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise ClusterProblem(f"`{' '.join(argv)}` exit {ended.returncode}: {commands.last_errors(ended.stderr)}")

"""One run of the virtual machine: code goes in as a tar on a drive, pytest's output comes out of a serial port."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from e2e.numa_vm import image
from tools.localcluster import content_cache, progress
from tools.localcluster.errors import ClusterProblem

CODE = (
    "api_types/__init__.py", "api_types/kubernetes/cpu_list.py", "koordlet/__init__.py", "koordlet/samples.py",
    "koordlet/collectors", "tests/__init__.py", "tests/host_trees", "tests/koordlet/collectors/test_live_numa.py",
)  # fmt: skip
DEADLINE_SECONDS = 300
"""Several times the duration of the tests on an idle machine; then qemu is killed."""

LEFT_BY_ITSELF = 1
"""Exit code of qemu after the guest wrote 0 to the debug exit: 2 * 0 + 1."""


@dataclass(frozen=True)
class Ended:
    """Result of pytest in the virtual machine."""

    exit_code: int
    output: str


def run_tests() -> Ended:
    """Run the tests of NUMA nodes inside.

    Raises ClusterProblem, with the last words of the kernel, when the machine did not come to pytest's end.
    """
    booted = image.image()
    with (
        tempfile.TemporaryDirectory() as scratch,
        progress.step("running tests in a virtual machine with two NUMA nodes"),
    ):
        folder = Path(scratch)
        _pack(folder / "code.tar")
        qemu = subprocess.run(_command(booted, folder), capture_output=True, text=True, check=False)
        output = _text(folder / "output")
        ended = result_of(qemu.returncode, output)
        if ended is None:
            raise ClusterProblem(
                f"the virtual machine ended with exit code {qemu.returncode}; {LEFT_BY_ITSELF} and a last line RC=<n> "
                f"are wanted (0: the kernel panicked; 137: no end within {DEADLINE_SECONDS} s); its last words: "
                f"{qemu.stderr}\n{_text(folder / 'console')[-2000:]}\n{output[-4000:]}"
            )
    return ended


def result_of(qemu_exit_code: int, output: str) -> Ended | None:
    """Return the result of pytest; None unless the guest has written it last and has powered off by itself."""
    found = re.search(r"^RC=(\d+)\s*\Z", output, re.MULTILINE)
    if qemu_exit_code != LEFT_BY_ITSELF or found is None:
        return None
    return Ended(int(found[1]), output[: found.start()])


def _command(booted: image.Image, folder: Path) -> list[str]:
    # What the guest writes goes to a temporary file beside the image.
    drives = {"root": (booted.root, "snapshot=on"), "code": (folder / "code.tar", "readonly=off")}
    kernel_arguments = "console=ttyS0 quiet panic=-1 root=/dev/nvme0n1 rootfstype=ext4 rw psi=1 init=/init"
    return [
        "timeout", "-s", "KILL", str(DEADLINE_SECONDS), "qemu-system-x86_64",
        "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max", "-smp", "2", "-m", "512",
        *(
            word
            for node in range(2)
            for word in (
                "-object", f"memory-backend-ram,id=memory{node},size=256M",
                "-numa", f"node,nodeid={node},cpus={node},memdev=memory{node}",
            )
        ),
        "-nodefaults", "-display", "none", "-no-reboot",
        "-serial", f"file:{folder / 'console'}", "-serial", f"file:{folder / 'output'}",
        "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04",
        *(
            word
            for name, (file, writing) in drives.items()
            for word in (
                "-drive", f"file={file},if=none,id={name},format=raw,{writing}",
                "-device", f"nvme,drive={name},serial={name}",
            )
        ),
        "-kernel", str(booted.kernel), "-append", kernel_arguments,
    ]  # fmt: skip


def _pack(drive: Path) -> None:
    with tarfile.open(drive, "w") as archive:
        for path in CODE:
            archive.add(
                content_cache.REPOSITORY / path,
                path,
                filter=lambda member: None if "__pycache__" in member.name else member,
            )


def _text(file: Path) -> str:
    return file.read_text(errors="replace").replace("\r\n", "\n") if file.exists() else ""

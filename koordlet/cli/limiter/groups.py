"""The cgroups of the BestEffort pods, below one folder for each controller. No path leaves that folder.

The folder is opened once. Pods are those of its subfolders that have the name of a BestEffort pod; they and their files
are opened relative to it and without following links, so that neither a UID nor a link names anything else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from koordlet.cli.limiter import file_values
from koordlet.cli.limiter.file_values import FileValue
from koordlet.cli.limiter.input_file import Amounts, is_uid

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_FILE_BYTES: Final = 65_536
_POD: Final = re.compile(
    r"pod(?P<plain>[0-9a-f-]+)|(?:[a-z0-9-]+-)?kubepods-besteffort-pod(?P<escaped>[0-9a-f_]+)\.slice", re.ASCII
)


class NoGroups(OSError):
    """The folder is not one of BestEffort pods, or is gone."""


class InUse(OSError):
    """A pod uses more memory than it would be left with."""


class _Controller(NamedTuple):
    witness: str
    """File that shows the version."""
    values: Callable[[Amounts], tuple[FileValue, ...]]
    usage: str
    cache: str
    """Field of memory.stat with page cache that the kernel reclaims first."""


CPU: Final = (
    _Controller("cpu.weight", file_values.cpu_v2, "", ""),
    _Controller("cpu.shares", file_values.cpu_v1, "", ""),
)
MEMORY: Final = (
    _Controller("memory.high", file_values.memory_v2, "memory.current", "inactive_file"),
    _Controller("memory.limit_in_bytes", file_values.memory_v1, "memory.usage_in_bytes", "total_inactive_file"),
)


class Groups:
    """The groups of BestEffort pods in one controller."""

    def __init__(self, folder: Path, versions: tuple[_Controller, ...]) -> None:
        """Open the folder. Raises NoGroups."""
        self.folder = folder
        if folder.name != "besteffort" and not folder.name.endswith("kubepods-besteffort.slice"):
            raise NoGroups(f"{folder}: want the folder besteffort or kubepods-besteffort.slice")
        try:
            self._root = os.open(folder, _FOLDER)
        except OSError as error:
            raise NoGroups(f"{folder} cannot be opened: {error.strerror}; mount that of the node") from error
        present = set(os.listdir(self._root))  # noqa: PTH208  # of a descriptor
        found = next((each for each in versions if each.witness in present), None)
        if found is None:
            os.close(self._root)
            raise NoGroups(f"{folder} has none of {', '.join(each.witness for each in versions)}: no cgroup of it")
        self._controller = found

    def close(self) -> None:
        """Close the folder."""
        os.close(self._root)

    def pods(self) -> dict[str, str]:
        """Return UID of each pod -> name of its folder. Raises NoGroups where the folder was removed."""
        try:  # a removed folder can still be listed, and is empty
            os.stat(self._controller.witness, dir_fd=self._root, follow_symlinks=False)
        except OSError as error:
            raise NoGroups(f"{self.folder} was removed: {error.strerror}") from error
        with os.scandir(self._root) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return {uid: name for name in names if (uid := _uid(name)) is not None}

    def write(self, name: str, amounts: Amounts) -> int:
        """Write the values of one pod that differ, and return their number.

        `name` is one of `pods`. Raises InUse where more memory is in use than it would be left with, after writing what
        takes none of it away; FileNotFoundError where the pod has ended, and OSError where the kernel refuses a value.
        """
        with self._opened(name) as pod:
            found = [(each, *self._written(pod, each)) for each in self._controller.values(amounts)]
        for wanted, value, _ in found:
            if value is not wanted:
                raise InUse(f"it uses more than {wanted.file} of {wanted.value}, which is {value.value} until then")
        return sum(is_changed for _, _, is_changed in found)

    def _written(self, pod: int, wanted: FileValue) -> tuple[FileValue, bool]:
        """Write one value, or what is possible of it, and return it, and whether the file held another one."""
        present = _read(pod, wanted.file).strip()
        if file_values.is_equal(wanted.file, present, wanted.value):
            return wanted, False
        value = wanted
        if wanted.limits_memory_bytes and (used := self._used(pod, wanted)) > wanted.limits_memory_bytes:
            value = file_values.while_in_use(wanted, used, present)
            if value.value == present:
                return value, False
        self._write(pod, value)
        return value, True

    def _write(self, pod: int, wanted: FileValue) -> None:
        descriptor = os.open(wanted.file, os.O_WRONLY | os.O_TRUNC | _FILE, dir_fd=pod)
        try:
            os.write(descriptor, wanted.value.encode("ascii"))
        except OSError as error:
            kind = InUse if wanted.limits_memory_bytes and error.errno == errno.EBUSY else OSError
            raise kind(error.errno, f"the kernel refuses {wanted.value!r}: {error.strerror}", wanted.file) from error
        finally:
            os.close(descriptor)

    def _used(self, pod: int, wanted: FileValue) -> int:
        """Return the memory that the kernel cannot reclaim at once; for memory.max, which kills, all of it."""
        used = int(_read(pod, self._controller.usage))
        if wanted.file == "memory.max":
            return used
        fields = dict(line.split(maxsplit=1) for line in _read(pod, "memory.stat").splitlines())
        return used - int(fields.get(self._controller.cache, 0))

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        if _uid(name) is None:
            raise NoGroups(f"{name!r} is not the folder of a BestEffort pod")
        pod = os.open(name, _FOLDER, dir_fd=self._root)
        try:
            yield pod
        finally:
            os.close(pod)


def _uid(name: str) -> str | None:
    """Return the UID of the pod of a folder; None for any other folder."""
    match = _POD.fullmatch(name)
    if match is None:
        return None
    uid = match["plain"] or match["escaped"].replace("_", "-")
    return uid if is_uid(uid) else None


def _read(pod: int, file: str) -> str:
    descriptor = os.open(file, os.O_RDONLY | _FILE, dir_fd=pod)
    try:
        return os.read(descriptor, _MOST_FILE_BYTES).decode("ascii")
    finally:
        os.close(descriptor)

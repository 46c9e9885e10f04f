"""A compressed archive of bounded size, written file by file."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

FOLDER: Final = "koord-bundle"
MOST_BYTES: Final = 64 * 2**20
"""Of all files together, before compression."""
LARGEST_FILE_BYTES: Final = 16 * 2**20


class Archive:
    """The archive. Only its owner may read the file; a file of that name is never replaced. Raises OSError."""

    def __init__(self, path: Path, time: float) -> None:
        self._path = path
        self._time = int(time)
        self._room = MOST_BYTES
        self.names: list[str] = []
        self.missing: list[str] = []
        """A sentence for each part that could not be read, or was cut."""
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz")  # noqa: SIM115  # closed at the end of the block

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        """Close the file; after an error it is removed."""
        if kind is None:
            self._write("missing.txt", "".join(f"{line}\n" for line in self.missing).encode())
            self._tar.close()
        self._file.close()
        if kind is not None:
            self._path.unlink(missing_ok=True)

    @property
    def most_bytes(self) -> int:
        """Return the size of the largest file that can be added."""
        return min(LARGEST_FILE_BYTES, self._room)

    def add(self, name: str, text: str) -> None:
        """Add a file; its end is kept where it is too large."""
        content = text.encode("utf-8", "replace")
        most = self.most_bytes
        if len(content) > most:
            self.missing.append(f"{name}: only the last {most} of {len(content)} bytes are kept")
            content = content[len(content) - most :].partition(b"\n")[2]
        if content:
            self._room -= len(content)
            self._write(name, content)

    def _write(self, name: str, content: bytes) -> None:
        entry = tarfile.TarInfo(f"{FOLDER}/{name}")
        entry.size, entry.mtime, entry.mode = len(content), self._time, 0o600
        self._tar.addfile(entry, io.BytesIO(content))
        self.names.append(name)

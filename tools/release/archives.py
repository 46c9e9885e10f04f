"""Write archives whose bytes depend on nothing but names and contents: sorted, of root, with one time."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def tar(file: Path, contents: Mapping[str, bytes | Path], epoch: int, programs: tuple[str, ...] = ()) -> None:
    """Write a tar file of path -> content, gzipped where its name ends with `gz`. `programs` may be executed.

    A content may be a file; a symbolic link stays one.
    """
    with file.open("wb") as target:
        if file.name.endswith("gz"):
            with gzip.GzipFile("", "wb", compresslevel=6, mtime=epoch, fileobj=target) as compressed:
                _write(compressed, contents, epoch, programs)
        else:
            _write(target, contents, epoch, programs)


def _write(
    target: io.BufferedIOBase, contents: Mapping[str, bytes | Path], epoch: int, programs: tuple[str, ...]
) -> None:
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(contents.items()):
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.mode = epoch, 0o755 if name in programs else 0o644
            if isinstance(content, bytes):
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            elif content.is_symlink():
                entry.type, entry.linkname = tarfile.SYMTYPE, str(content.readlink())
                archive.addfile(entry)
            else:
                entry.size = content.stat().st_size
                with content.open("rb") as opened:
                    archive.addfile(entry, opened)

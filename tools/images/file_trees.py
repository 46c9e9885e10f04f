"""Trees of files, and the layers of images that hold them: equal trees give equal bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tools.localcluster import content_cache

PLAIN, PROGRAM = 0o644, 0o755
TIME = 0
"""Time of all files: a layer that did not change has the same digest in the next release, so no node pulls it again."""


class File(NamedTuple):
    """A file, a link (`link` is its target), or a folder whose mode is not the usual one (`is_folder`)."""

    content: bytes = b""
    mode: int = PLAIN
    link: str = ""
    is_folder: bool = False


Tree = Mapping[str, File]
"""Path without a leading slash -> file. Parent folders are implied."""


@dataclass(frozen=True)
class Layer:
    """A layer: the compressed file, its digest, and that of what is in it."""

    file: Path
    digest: str
    content_digest: str


def layer(name: str, tree: Tree) -> Layer:
    """Return the layer that holds a tree, made where the cache has none; of a name it keeps two."""
    listed = "\n".join(
        f"{path} {file.mode:o} {file.link} {file.is_folder} {hashlib.sha256(file.content).hexdigest()}"
        for path, file in sorted(tree.items())
    )
    key = content_cache.digest(listed, Path(__file__))

    def build(folder: Path) -> None:
        packed = io.BytesIO()
        _write_tar(tree, packed)
        # Of one write and with no name and no time, as the bytes of a gzip file depend on all three.
        (folder / "layer.tar.gz").write_bytes(gzip.compress(packed.getbuffer(), compresslevel=6, mtime=0))
        (folder / "digests").write_text(
            f"{_sha256((folder / 'layer.tar.gz').read_bytes())} {_sha256(packed.getbuffer())}"
        )

    folder = content_cache.folder(f"layers/{name}", key, build)
    digest, content_digest = (folder / "digests").read_text().split()
    return Layer(folder / "layer.tar.gz", digest, content_digest)


def _sha256(content: bytes | memoryview) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _write_tar(tree: Tree, target: io.BytesIO) -> None:
    parents = {str(parent): File(mode=PROGRAM, is_folder=True) for path in tree for parent in Path(path).parents}
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, file in sorted({**parents, **tree}.items()):
            if path == ".":
                continue
            entry = tarfile.TarInfo(path)
            entry.mode, entry.mtime = file.mode, TIME
            if file.is_folder:
                entry.type = tarfile.DIRTYPE
            elif file.link:
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, file.link, 0o777
            else:
                entry.size = len(file.content)
            archive.addfile(entry, io.BytesIO(file.content))


def read_tar(archive: tarfile.TarFile) -> Iterator[tuple[str, File]]:
    """Return the files, links and folders of a tar file in its order; a hard link is a copy. Raises ValueError."""
    contents: dict[str, File] = {}
    for entry in archive:
        path = str(Path(entry.name))
        if entry.issym():
            file = File(link=entry.linkname)
        elif entry.isdir():
            file = File(mode=stat.S_IMODE(entry.mode), is_folder=True)
        elif entry.islnk():
            file = contents[str(Path(entry.linkname))]
        else:
            content = archive.extractfile(entry)
            if content is None:
                raise ValueError(f"{path} is no file, folder or link")
            file = File(content.read(), stat.S_IMODE(entry.mode))
        contents[path] = file
        yield path, file


def write_to(tree: Tree, folder: Path) -> None:
    """Write a tree into a folder."""
    for path, file in sorted(tree.items()):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.is_folder:
            target.mkdir(exist_ok=True)
        elif file.link:
            target.symlink_to(file.link)
        else:
            target.write_bytes(file.content)
        if not file.link:
            target.chmod(file.mode)

"""Docker-archives: the tar files in which container images reach a cluster without a registry."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tools.localcluster.errors import ClusterProblem

FOLDER = "usr/local/bin"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Archive:
    """A built image: its short name, its reference in the cluster, and the docker-archive that holds it."""

    name: str
    reference: str
    file: Path


@dataclass(frozen=True)
class ProgramImage:
    """An image that holds programs in `/usr/local/bin`, on top of other layers.

    reference: the whole name, with registry and tag. layers: tar files, the lowest first.
    """

    reference: str
    programs: Sequence[Path]
    entrypoint: Sequence[str] = ()
    user: str = ""
    layers: Sequence[Path] = ()


def architecture() -> str:
    """Return this machine's architecture, in the words of images and of Go."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def read(file: Path) -> Archive:
    """Return the archive in `file`, named by its manifest. Raises ClusterProblem for any other file."""
    try:
        with tarfile.open(file) as archive:
            manifest = json.load(archive.extractfile("manifest.json") or io.BytesIO(b"[]"))
        reference = str(manifest[0]["RepoTags"][0]).removeprefix("docker.io/")
    except (OSError, KeyError, IndexError, TypeError, ValueError, tarfile.TarError) as problem:
        raise ClusterProblem(
            f"{file}: not a docker-archive with a named image ({problem!r}); write one with `docker save NAME:TAG`"
        ) from problem
    return Archive(reference.rpartition(":")[0].rpartition("/")[2], reference, file)


class Packed(NamedTuple):
    """An image in an archive: its whole name, its configuration, and its layers.

    layers: from the lowest, compressed or not, by their SHA-256.
    """

    reference: str
    configuration: bytes
    layers: Mapping[str, Path | bytes]


def write(file: Path, images: Sequence[ProgramImage]) -> None:
    """Write a docker-archive with these images."""
    packed = []
    for image in images:
        own = _tar({f"{FOLDER}/{program.name}": program.read_bytes() for program in image.programs}, mode=0o755)
        its_layers: list[Path | bytes] = [*image.layers, own]
        content = {sha256(layer): layer for layer in its_layers}
        configuration = {
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": list(image.entrypoint), "User": image.user, "Env": [f"PATH={_PATH}"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in content]},
        }
        packed.append(Packed(image.reference, json.dumps(configuration).encode(), content))
    pack(file, packed)


def pack(file: Path, images: Sequence[Packed]) -> None:
    """Write a docker-archive with these images. A layer that several of them have is in it once.

    The file `repositories` of the older format comes first: kind reads all names from it, and only one from the other.
    """
    texts: dict[str, bytes] = {}
    layers: dict[str, Path | bytes] = {}
    manifest = []
    for image in images:
        name = f"{hashlib.sha256(image.configuration).hexdigest()}.json"
        texts[name] = image.configuration
        layers |= image.layers
        listed = [f"{digest}/layer.tar" for digest in image.layers]
        manifest.append({"Config": name, "RepoTags": [image.reference], "Layers": listed})
    repositories: dict[str, dict[str, str]] = {}
    for image, entry in zip(images, manifest, strict=True):
        repository, _, tag = image.reference.rpartition(":")
        repositories.setdefault(repository, {})[tag] = str(entry["Layers"][-1]).partition("/")[0]
    documents = {"repositories": repositories, "manifest.json": manifest}
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, document in documents.items():
            _add(archive, name, json.dumps(document).encode(), mode=0o644)
        for name, text in texts.items():
            _add(archive, name, text, mode=0o644)
        for digest, layer in layers.items():
            if isinstance(layer, bytes):
                _add(archive, f"{digest}/layer.tar", layer, mode=0o644)
            else:
                archive.add(layer, f"{digest}/layer.tar", filter=_without_owner)


def sha256(content: Path | bytes) -> str:
    """Return the SHA-256 of bytes or of a file, as hexadecimal digits."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    """Return a tar file. Owner and times are zero, so that equal files give equal bytes."""
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            _add(archive, name, content, mode=mode)
    return result.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))

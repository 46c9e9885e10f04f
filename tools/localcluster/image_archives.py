"""Docker-archives: the tar files in which container images reach a cluster without a registry."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tools.localcluster.errors import ClusterProblem

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Archive:
    """A built image: its short name, its reference in the cluster, and the docker-archive that holds it."""

    name: str
    reference: str
    file: Path


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


def write_program(file: Path, *, program: Path, reference: str, user: str) -> None:
    """Write an image that holds one static program, which is its entry point, run as `user`."""
    layer = _tar({program.name: program.read_bytes()}, mode=0o755)
    configuration = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "User": user},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [f"docker.io/{reference}"], "Layers": ["layer.tar"]}]
    documents = {"manifest.json": manifest, "config.json": configuration}
    texts = {name: json.dumps(document).encode() for name, document in documents.items()}
    file.write_bytes(_tar({**texts, "layer.tar": layer}, mode=0o644))


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    """Return a tar file. Owner and times are zero, so that equal files give equal bytes."""
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return result.getvalue()

"""From an Image to an archive file that a container runtime imports, by buildah or by docker.

The tag is the hash of everything that goes in: `koord-suite/koordlet:dev-0123456789ab`. A changed image has another
name, so `imagePullPolicy: IfNotPresent` runs the new one and `helm upgrade` detects it; an unchanged one is not built.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tools.images import debian, debian_base, front_end, wheels
from tools.images.definitions import Image
from tools.localcluster import content_cache, progress
from tools.localcluster.host import commands
from tools.localcluster.image_archives import Archive

DOCKER_BASE = "docker.io/library/python:3.12-slim"
DOCKER_BASE_PYTHON = "3.12"
BASE_VARIABLE, DEBIAN = "IMAGES_BASE", "debian"
"""Environment variable, and its value for an engine without a registry: the base is made of Debian packages."""
BLOB_CACHE = Path("/var/lib/containers/cache")
"""Folder that buildah writes in any case, also with a storage of its own."""
LAYERS_KEPT = 80  # some 10 builds; each layer may be a full copy of the file system
PACKAGES = {"buildah": ("buildah",), **debian.PROGRAMS}
"""Debian packages that Buildah needs, with the programs that show their presence."""


class Builder(Protocol):
    """A program that executes Dockerfiles."""

    python_version: str

    def base_key(self) -> str:
        """Return what identifies the base image."""
        ...

    def build(self, dockerfile: Path, context: Path, arguments: Sequence[str], reference: str, archive: Path) -> None:
        """Execute a Dockerfile and write the result, named `reference`, to a docker-archive."""
        ...

    def start_from(self, archive: Archive) -> str:
        """Return the name by which a Dockerfile starts from an image that was built."""
        ...


def archive(image: Image, builder: Builder) -> Archive:
    """Return the image's archive, built on first use and after each change of its inputs."""
    program = image.program() if image.program else None
    wheel_folder = wheels.folder(builder.python_version) if image.needs_wheels else None
    files = front_end.folder() if image.needs_front_end else None
    key = content_cache.digest(
        *image.inputs,
        builder.base_key() if image.needs_base else "",
        wheel_folder.name if wheel_folder else "",
        program.parent.name if program else "",
        *([files.name] if files else []),
    )
    reference = f"koord-suite/{image.name}:dev-{key[:12]}"
    arguments = ["--target", image.target] if image.target else []
    if wheel_folder:
        arguments += ["--build-arg", f"WHEELS={wheel_folder.relative_to(content_cache.REPOSITORY)}"]

    if files:
        arguments += ["--build-arg", f"FRONT_END={files.relative_to(content_cache.REPOSITORY)}"]

    def build(folder: Path) -> None:
        with progress.step(f"building image {reference}"):
            context = program.parent if program else image.context
            builder.build(image.dockerfile, context, arguments, f"docker.io/{reference}", folder / "image.tar")

    return Archive(image.name, reference, content_cache.folder(f"images/{image.name}", key, build) / "image.tar")


class Buildah:
    """Builder that runs as root without a daemon and without a registry, on a base image made of Debian packages.

    It has a storage of its own and does not touch the machine's images. The storage keeps layers between builds, and is
    emptied when it has more than LAYERS_KEPT.
    """

    storage = content_cache.ROOT / "buildah"

    python_version = debian_base.PYTHON_VERSION

    def base_key(self) -> str:
        """Return the hash of the base image."""
        return debian_base.root_file_system().parent.name

    def build(self, dockerfile: Path, context: Path, arguments: Sequence[str], reference: str, archive: Path) -> None:
        """Build with `buildah bud`."""
        if len(self._run("images", "--all", "--quiet").split()) > LAYERS_KEPT:
            self._run("rmi", "--all", "--force")
        base = self._base() if _names_a_base(dockerfile) else ""
        options = ["--build-arg", f"BASE={base}", "--pull-never"] if base else []
        self._run("bud", "--quiet", "--layers", "--file", dockerfile, "--tag", reference, *options, *arguments, context)
        self._run("push", "--quiet", reference, f"docker-archive:{archive}:{reference}")

    def start_from(self, archive: Archive) -> str:
        """Return the name of the archive: no registry has the image, and the storage may not have it any more."""
        return f"docker-archive:{archive.file}"

    def _base(self) -> str:
        name = f"localhost/koord-suite/base:{self.base_key()}"
        if name not in self._run("images", "--format", "{{.Name}}:{{.Tag}}").split():
            container = self._run("from", "scratch").strip()
            self._run("add", container, debian_base.root_file_system(), "/")
            self._run("commit", "--quiet", "--rm", container, name)
        return name

    def _run(self, *words: object) -> str:
        environment = {
            "STORAGE_DRIVER": "vfs",
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_CONF": str(self._configuration()),
        }
        where = ["--root", self.storage / "storage", "--runroot", self.storage / "run"]
        had_cache, had_parent = BLOB_CACHE.exists(), BLOB_CACHE.parent.exists()
        try:
            return commands.run(["buildah", *where, *words], environment=environment)
        finally:
            if not had_cache:
                shutil.rmtree(BLOB_CACHE, ignore_errors=True)
            if not had_parent:
                with contextlib.suppress(OSError):
                    BLOB_CACHE.parent.rmdir()

    def _configuration(self) -> Path:
        """Write buildah's configuration: its lock of networks, of which it uses none, is not in /etc/cni."""
        file = self.storage / "containers.conf"
        self.storage.mkdir(parents=True, exist_ok=True)
        file.write_text(f'[network]\nnetwork_config_dir = "{self.storage}/networks"\n')
        return file


class Docker:
    """Builder that uses the Docker engine, on the base image that the Dockerfile names or on one of Debian packages.

    The second needs no registry, but root and mmdebstrap.
    """

    def __init__(self, *, on_debian: bool = False) -> None:
        self.python_version = debian_base.PYTHON_VERSION if on_debian else DOCKER_BASE_PYTHON
        self._on_debian = on_debian

    def base_key(self) -> str:
        """Return what identifies the base image."""
        return debian_base.root_file_system().parent.name if self._on_debian else DOCKER_BASE

    def build(self, dockerfile: Path, context: Path, arguments: Sequence[str], reference: str, archive: Path) -> None:
        """Build with `docker build`."""
        base = ["--build-arg", f"BASE={self._debian()}"] if self._on_debian and _names_a_base(dockerfile) else []
        words = ["--quiet", "--file", dockerfile, "--tag", reference, *base, *arguments, context]
        commands.run(["docker", "build", *words])
        commands.run(["docker", "save", "--output", archive, reference])

    def start_from(self, archive: Archive) -> str:
        """Give the engine the image and return its reference."""
        commands.run(["docker", "load", "--quiet", "--input", archive.file])
        return archive.reference

    def _debian(self) -> str:
        name = f"koord-suite/base:{self.base_key()}"
        if not commands.succeeds(["docker", "image", "inspect", name]):
            commands.run(["docker", "import", debian_base.root_file_system(), name])
        return name


def builder(provider: str | None = None) -> Builder:
    """Return the builder for a provider of localcluster; without one, buildah where it is installed, else Docker."""
    if provider in ("local", "nodes") or (provider != "kind" and shutil.which("buildah")):
        return Buildah()
    return Docker(on_debian=os.environ.get(BASE_VARIABLE) == DEBIAN)


def _names_a_base(dockerfile: Path) -> bool:
    return any("BASE" in line for line in dockerfile.read_text().splitlines())

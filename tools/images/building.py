"""From an Image to an archive file that a container runtime imports, by buildah or by docker.

The tag is the hash of everything that goes in: `koord-suite/koordlet:dev-0123456789ab`. A changed image has another
name, so `imagePullPolicy: IfNotPresent` runs the new one and `helm upgrade` notices; an unchanged one is not built.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools.images import debian_base, wheels
from tools.images.catalog import Image
from tools.localcluster import content_cache, go_binaries, progress
from tools.localcluster.host import commands

DOCKER_BASE = "docker.io/library/python:3.12-slim"
DOCKER_BASE_PYTHON = "3.12"
LAYERS_KEPT = 80  # some 10 builds; each layer may be a full copy of the file system


@dataclass(frozen=True)
class Archive:
    """A built image: the reference it has in the cluster, and the docker-archive that holds it."""

    name: str
    reference: str
    file: Path


class Builder(Protocol):
    """A program that executes Dockerfiles."""

    python_version: str

    def base_key(self) -> str:
        """What identifies the base image."""
        ...

    def build(self, dockerfile: Path, context: Path, arguments: Sequence[str], reference: str, archive: Path) -> None:
        """Execute a Dockerfile and write the result, named `reference`, to a docker-archive."""
        ...


def archive(image: Image, builder: Builder) -> Archive:
    """The image's archive, built on first use and whenever something it is made from has changed."""
    program = _program(image.program) if image.program else None
    wheel_folder = wheels.folder(builder.python_version) if image.needs_wheels else None
    key = content_cache.digest(
        *image.inputs,
        builder.base_key() if image.needs_base else "",
        wheel_folder.name if wheel_folder else "",
        program.parent.name if program else "",
    )
    reference = f"koord-suite/{image.name}:dev-{key[:12]}"
    arguments = ["--target", image.target] if image.target else []
    if wheel_folder:
        arguments += ["--build-arg", f"WHEELS={wheel_folder.relative_to(content_cache.REPOSITORY)}"]

    def build(folder: Path) -> None:
        with progress.step(f"building image {reference}"):
            context = program.parent if program else image.context
            builder.build(image.dockerfile, context, arguments, f"docker.io/{reference}", folder / "image.tar")

    return Archive(image.name, reference, content_cache.folder(f"images/{image.name}", key, build) / "image.tar")


def _program(name: str) -> Path:
    if name != "pause":
        return go_binaries.everything() / name
    source = Path(__file__).parent / "pause" / "pause.c"
    return content_cache.folder("pause", content_cache.digest(source), lambda folder: _compile(source, folder)) / name


def _compile(source: Path, folder: Path) -> None:
    commands.run(["gcc", "-static", "-Os", "-s", "-Wall", "-Werror", "-o", folder / "pause", source])


class Buildah:
    """Builds as root without a daemon and without a registry, on a base image made of Debian packages.

    The storage is our own: the machine's images are not touched. It keeps layers between builds, and is emptied when it
    has many.
    """

    storage = content_cache.ROOT / "buildah"

    python_version = debian_base.PYTHON_VERSION

    def base_key(self) -> str:
        """The base image's own hash."""
        return debian_base.root_file_system().parent.name

    def build(self, dockerfile: Path, context: Path, arguments: Sequence[str], reference: str, archive: Path) -> None:
        """See Builder."""
        if len(self._run("images", "--all", "--quiet").split()) > LAYERS_KEPT:
            self._run("rmi", "--all", "--force")
        base = self._base() if any("BASE" in line for line in dockerfile.read_text().splitlines()) else ""
        options = ["--build-arg", f"BASE={base}", "--pull-never"] if base else []
        self._run("bud", "--quiet", "--layers", "--file", dockerfile, "--tag", reference, *options, *arguments, context)
        self._run("push", "--quiet", reference, f"docker-archive:{archive}:{reference}")

    def _base(self) -> str:
        name = f"localhost/koord-suite/base:{self.base_key()}"
        if name not in self._run("images", "--format", "{{.Name}}:{{.Tag}}").split():
            container = self._run("from", "scratch").strip()
            self._run("add", container, debian_base.root_file_system(), "/")
            self._run("commit", "--quiet", "--rm", container, name)
        return name

    def _run(self, *words: object) -> str:
        environment = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
        where = ["--root", self.storage / "storage", "--runroot", self.storage / "run"]
        return commands.run(["buildah", *where, *words], environment=environment)


class Docker:
    """Builds with the Docker engine, on the base image that the Dockerfile names."""

    python_version = DOCKER_BASE_PYTHON

    def base_key(self) -> str:
        """The base image's name."""
        return DOCKER_BASE

    def build(self, dockerfile: Path, context: Path, arguments: Sequence[str], reference: str, archive: Path) -> None:
        """See Builder."""
        commands.run(["docker", "build", "--quiet", "--file", dockerfile, "--tag", reference, *arguments, context])
        commands.run(["docker", "save", "--output", archive, reference])


def builder() -> Builder:
    """Docker where there is no buildah, else buildah."""
    return Buildah() if shutil.which("buildah") else Docker()

"""The pause image, whose container holds the namespaces of a pod. Compiled here: there is no registry to pull from."""

from __future__ import annotations

from pathlib import Path

from tools.localcluster import content_cache, image_archives
from tools.localcluster.host import commands
from tools.localcluster.image_archives import Archive, ProgramImage

SOURCE = Path(__file__).parent / "pause" / "pause.c"
USER = "65535:65535"


def program() -> Path:
    """Return the program, compiled on first use."""
    return _folder() / "pause"


def archive() -> Archive:
    """Return the archive of the pause image, made on first use."""
    folder = _folder()
    return Archive("pause", f"koord-suite/pause:dev-{folder.name[:12]}", folder / "image.tar")


def _folder() -> Path:
    key = content_cache.digest(SOURCE, USER)

    def build(folder: Path) -> None:
        commands.run(["gcc", "-static", "-Os", "-s", "-Wall", "-Werror", "-o", folder / "pause", SOURCE])
        name = f"docker.io/koord-suite/pause:dev-{key[:12]}"
        image = ProgramImage(name, [folder / "pause"], [f"/{image_archives.FOLDER}/pause"], USER)
        image_archives.write(folder / "image.tar", [image])

    return content_cache.folder("pause", key, build)

"""The pause image, whose container holds the namespaces of a pod. Compiled here: there is no registry to pull from."""

from __future__ import annotations

from pathlib import Path

from tools.localcluster import content_cache, image_archives
from tools.localcluster.host import commands

SOURCE = Path(__file__).parent / "pause" / "pause.c"
USER = "65535:65535"


def archive() -> image_archives.Archive:
    """Return the archive of the pause image, compiled on first use."""
    key = content_cache.digest(SOURCE, USER)
    reference = f"koord-suite/pause:dev-{key[:12]}"

    def build(folder: Path) -> None:
        commands.run(["gcc", "-static", "-Os", "-s", "-Wall", "-Werror", "-o", folder / "pause", SOURCE])
        image_archives.write_program(folder / "image.tar", program=folder / "pause", reference=reference, user=USER)

    return image_archives.Archive("pause", reference, content_cache.folder("pause", key, build) / "image.tar")

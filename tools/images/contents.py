"""A table of what is in the images of a release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.images import check

_MEGABYTE = 1e6
HEAD = ("image", "architecture", "Debian packages", "distributions", "MB", "MB compressed", "user", "shell")


def table(folder: Path) -> Iterator[str]:
    """Return the lines of the table in Markdown."""
    yield f"| {' | '.join(HEAD)} |"
    yield f"|{'---|' * len(HEAD)}"
    for layout in sorted((folder / "images").iterdir()):
        for image in check.images(layout, []):
            counts = (len(image.debian_packages()), len(image.distributions()))
            sizes = (f"{image.size() / _MEGABYTE:.1f}", f"{image.compressed / _MEGABYTE:.1f}")
            shell = "yes" if image.has_shell() else "no"
            row = (f"{layout.name}:{image.tag}", image.architecture, *counts, *sizes, image.user, shell)
            yield f"| {' | '.join(map(str, row))} |"

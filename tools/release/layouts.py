"""Read the OCI layout folders of a release, `images/NAME/`: which image indexes they list, under which tag."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.images.layouts import TAG


@dataclass(frozen=True)
class Listed:
    """An image index of a layout folder: `koord-scheduler`, `0.1.0-1.36`, and what index.json has of it."""

    layout: Path
    name: str
    tag: str
    descriptor: dict[str, Any]

    @property
    def digest(self) -> str:
        """Return the digest of the index, such as sha256:0123..."""
        return str(self.descriptor["digest"])

    def title(self, version: str) -> str:
        """Return the name with what the tag has after the version: `koordlet`, `koord-scheduler-1.36`."""
        return self.name + self.tag.removeprefix(version)

    def blobs(self) -> set[str]:
        """Return the digests of everything that the index reaches, its own among them."""
        return set(_reached(self.layout, self.descriptor))

    def size(self) -> int:
        """Return the bytes of everything that the index reaches."""
        return sum(blob(self.layout, digest).stat().st_size for digest in self.blobs())


def listed(folder: Path) -> list[Listed]:
    """Return the image indexes of all layout folders in a folder, sorted by name and tag."""
    images = [
        Listed(index.parent, index.parent.name, descriptor["annotations"][TAG], descriptor)
        for index in folder.glob("*/index.json")
        for descriptor in json.loads(index.read_text(encoding="utf-8"))["manifests"]
        # What oras fetched has the manifests of each index as well, without a tag.
        if TAG in descriptor.get("annotations", {})
    ]
    return sorted(images, key=lambda image: (image.name, image.tag))


def blob(layout: Path, digest: str) -> Path:
    """Return the file of a digest in a layout folder."""
    algorithm, _, hexadecimal = digest.partition(":")
    return layout / "blobs" / algorithm / hexadecimal


def _reached(layout: Path, descriptor: dict[str, Any]) -> Iterator[str]:
    yield descriptor["digest"]
    if "manifest" in descriptor["mediaType"] or "index" in descriptor["mediaType"]:
        document = json.loads(blob(layout, descriptor["digest"]).read_text(encoding="utf-8"))
        parts = [*document.get("manifests", ()), *document.get("layers", ())]
        for part in [*parts, document["config"]] if "config" in document else parts:
            yield from _reached(layout, part)

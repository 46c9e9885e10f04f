"""OCI layouts of the released images, for all architectures, with what they are made of."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.images import bill_of_materials, recipes
from tools.images.file_trees import Layer
from tools.images.recipes import Recipe
from tools.localcluster import progress
from tools.localcluster.host import commands

EPOCH = "SOURCE_DATE_EPOCH"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIGURATION = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
TAG = "org.opencontainers.image.ref.name"


class Assembled(NamedTuple):
    """The parts of an image for one architecture: its configuration, and its layers from the lowest."""

    configuration: bytes
    layers: Sequence[Layer]


def write(folder: Path, version: str, architectures: Sequence[str] = recipes.ARCHITECTURES) -> None:
    """Write `images/NAME`, `sbom` and `provenance-inputs` of a release into a folder, in place of earlier ones.

    Needs root. Raises ClusterProblem.
    """
    released = recipes.released()
    byte_code = recipes.compiled([recipe for tags in released.values() for recipe in tags], architectures)
    labels = {"version": version, "revision": commit()}
    for name, tags in released.items():
        with progress.step(f"writing image {name}"):
            by_tag = {}
            for recipe in tags:
                layers = {architecture: recipe.layers(architecture, byte_code) for architecture in architectures}
                by_tag[recipe.tag(version)] = {
                    architecture: Assembled(configuration(recipe, architecture, of_image, labels), of_image)
                    for architecture, of_image in layers.items()
                }
            digests = write_layout(folder / "images" / name, by_tag)
        for recipe in tags:
            _describe(folder, recipe, recipe.tag(version), digests[recipe.tag(version)])


def write_layout(layout: Path, images: Mapping[str, Mapping[str, Assembled]]) -> dict[str, dict[str, str]]:
    """Write a layout with images by tag and architecture; return the digests of their manifests likewise."""
    shutil.rmtree(layout, ignore_errors=True)
    (layout / "blobs" / "sha256").mkdir(parents=True)
    indices, digests = [], {}
    for tag, by_architecture in images.items():
        manifests = [
            {**_manifest(layout, image), "platform": {"architecture": architecture, "os": "linux"}}
            for architecture, image in by_architecture.items()
        ]
        digests[tag] = {entry["platform"]["architecture"]: entry["digest"] for entry in manifests}
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        indices.append({**_blob(layout, INDEX, json.dumps(index).encode()), "annotations": {TAG: tag}})
    _write_json(layout / "index.json", {"schemaVersion": 2, "mediaType": INDEX, "manifests": indices})
    _write_json(layout / "oci-layout", {"imageLayoutVersion": "1.0.0"})
    return digests


def epoch() -> int:
    """Return the seconds of every time in a release: of SOURCE_DATE_EPOCH, else of the commit."""
    return int(os.environ.get(EPOCH) or commands.run(["git", "log", "-1", "--format=%ct"], folder=recipes.REPOSITORY))


def created() -> str:
    """Return the time of a release, as images state it."""
    return dt.datetime.fromtimestamp(epoch(), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def commit() -> str:
    """Return the commit of the repository."""
    return commands.run(["git", "rev-parse", "HEAD"], folder=recipes.REPOSITORY).strip()


def configuration(
    recipe: Recipe, architecture: str, layers: Sequence[Layer], labels: Mapping[str, str] | None = None
) -> bytes:
    """Return the configuration of an image; with labels, which a release has, it states a time."""
    prefix = "org.opencontainers.image"
    named = {f"{prefix}.{name}": text for name, text in {"title": recipe.name, **labels}.items()} if labels else {}
    content = {
        **({"created": created()} if labels else {}),
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": recipe.user,
            "Env": recipe.environment(),
            "Entrypoint": list(recipe.entrypoint),
            "WorkingDir": "/app" if recipe.component else "/",
            **({"Labels": named} if labels else {}),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.content_digest for layer in layers]},
    }
    return json.dumps(content, sort_keys=True).encode()


def _manifest(layout: Path, image: Assembled) -> dict[str, Any]:
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _blob(layout, CONFIGURATION, image.configuration),
        "layers": [_blob(layout, LAYER, layer.file.read_bytes()) for layer in image.layers],
    }
    return _blob(layout, MANIFEST, json.dumps(manifest).encode())


def _describe(folder: Path, recipe: Recipe, tag: str, digests: Mapping[str, str]) -> None:
    """Write the bill of materials of an image for each architecture, and the inputs of its build."""
    suffix = f"-{tag}" if recipe.minor else ""
    inputs = {"": bill_of_materials.repository(commit())}
    for architecture, digest in digests.items():
        parts = bill_of_materials.parts(recipe, architecture)
        bill = bill_of_materials.document(recipe.name, tag, created(), digest, parts)
        _write_json(folder / "sbom" / f"{recipe.name}{suffix}-{architecture}.cdx.json", bill)
        inputs |= {f"{part.purl} {part.digest}": part.as_input() for part in parts}
    _write_json(folder / "provenance-inputs" / f"{recipe.name}{suffix}.json", list(inputs.values()))


def _blob(layout: Path, media_type: str, content: bytes) -> dict[str, Any]:
    """Put content into a layout and return its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    (layout / "blobs" / "sha256" / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _write_json(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n")

"""Put the images of a release, built from this checkout, onto the nodes of the cluster that is up.

The tag is the hash of the content: `koord-suite/koordlet:dev-0123456789ab`. A changed image has another name, so
`imagePullPolicy: IfNotPresent` runs the new one and `helm upgrade` detects it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tools.images import layouts, recipes
from tools.images.file_trees import Layer
from tools.images.recipes import Recipe
from tools.localcluster import content_cache, image_archives, running
from tools.localcluster.image_archives import Archive, Packed


def build(*images: Recipe) -> Sequence[Archive]:
    """Return the archives of images: of all for a cluster where none is named. Needs root. Raises ClusterProblem."""
    chosen = images or recipes.for_cluster()
    return [archive(recipe, layers) for recipe, layers in zip(chosen, layers_of(chosen), strict=True)]


def layers_of(images: Sequence[Recipe]) -> list[list[Layer]]:
    """Return the layers of each image for this machine.

    Byte code is compiled for all images of a cluster together, so that it is in the cache for each of them.
    """
    here = image_archives.architecture()
    byte_code = recipes.compiled(recipes.for_cluster(), [here])
    return [recipe.layers(here, byte_code) for recipe in images]


def archive(recipe: Recipe, layers: Sequence[Layer]) -> Archive:
    """Return the archive of an image with these layers, for this machine."""
    configuration = layouts.configuration(recipe, image_archives.architecture(), layers)
    key = content_cache.digest(configuration, *(layer.digest for layer in layers))
    reference = f"koord-suite/{recipe.name}:dev-{key[:12]}"
    packed = Packed(
        f"docker.io/{reference}", configuration, {layer.digest.removeprefix("sha256:"): layer.file for layer in layers}
    )
    folder = content_cache.folder(
        f"images/{recipe.name}", key, lambda folder: image_archives.pack(folder / "image.tar", [packed])
    )
    return Archive(recipe.name, reference, folder / "image.tar")


def load(*images: Recipe) -> dict[str, str]:
    """Build what has changed, load it into the cluster that is up, and return image name -> reference."""
    provider = running.provider()
    archives = build(*images)
    provider.load(archives)
    return {archive.name: archive.reference for archive in archives}

"""Build the koordlet's image with predictors of packages, by the recipe of examples/predictor, and load it."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path

from tools.images import file_trees, loading, recipes
from tools.images.file_trees import File, Tree
from tools.localcluster import content_cache, running
from tools.localcluster.host import commands

EXAMPLE = content_cache.REPOSITORY / "examples" / "predictor"
FAULTY = Path(__file__).parent / "faulty_predictors"
RECIPE = dataclasses.replace(recipes.KOORDLET, name="koordlet-with-predictors")


def load() -> str:
    """Return the reference of the image, loaded into the cluster that is up."""
    (koordlet,) = loading.layers_of([recipes.KOORDLET])
    archive = loading.archive(RECIPE, [*koordlet, file_trees.layer(RECIPE.name, _copied())])
    running.provider().load([archive])
    return archive.reference


def _copied() -> Tree:
    """Return what the Dockerfile copies, once its line of pip has run for both packages."""
    (line,) = [line for line in (EXAMPLE / "Dockerfile").read_text().splitlines() if line.startswith("COPY ")]
    _, source, target = line.split()
    with tempfile.TemporaryDirectory() as scratch:
        site = Path(scratch) / source
        words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--target", site]
        commands.download([sys.executable, "-m", "pip", "install", *words, EXAMPLE, FAULTY])
        # These two name this machine's folder, by which equal packages would give another image.
        files = (file for file in site.rglob("*") if file.is_file() and file.name not in ("RECORD", "direct_url.json"))
        return {f"{target.lstrip('/')}/{file.relative_to(site)}": File(file.read_bytes()) for file in files}

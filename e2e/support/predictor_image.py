"""Build the koordlet's image with predictors of packages, by the recipe of examples/predictor, and load it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tools.images import building, definitions, wheels
from tools.localcluster import content_cache, progress, remembered, running
from tools.localcluster.host import commands
from tools.localcluster.image_archives import Archive

EXAMPLE = content_cache.REPOSITORY / "examples" / "predictor"
FAULTY = Path(__file__).parent / "faulty_predictors"
NAME = "koordlet-with-predictors"


def load() -> str:
    """Return the reference of the image, loaded into the cluster that is up."""
    builder = building.builder(remembered.name())
    (component,) = (image for image in definitions.IMAGES if image.name == "koordlet")
    koordlet = building.archive(component, builder)
    pip = wheels.folder(builder.python_version)
    key = content_cache.digest(EXAMPLE / "Dockerfile", *_sources(), koordlet.reference, pip.name)
    reference = f"koord-suite/{NAME}:dev-{key[:12]}"

    def build(folder: Path) -> None:
        with progress.step(f"building image {reference}"):
            wheel = _context(folder / "context", pip)
            arguments = ["--build-arg", f"KOORDLET={builder.start_from(koordlet)}", "--build-arg", f"PIP={wheel}"]
            builder.build(
                EXAMPLE / "Dockerfile", folder / "context", arguments, f"docker.io/{reference}", folder / "image.tar"
            )

    archive = Archive(NAME, reference, content_cache.folder(f"images/{NAME}", key, build) / "image.tar")
    running.provider().load([archive])
    return reference


def _sources() -> list[Path]:
    return [
        *(EXAMPLE / name for name in ("pyproject.toml", "koordlet_recent_peak.py")),
        *(FAULTY / name for name in ("pyproject.toml", "koordlet_faulty_predictors.py")),
    ]


def _context(context: Path, wheel_folder: Path) -> str:
    """Write the wheels of both packages and of pip, which the base image of Debian lacks; return the words of pip."""
    target = context / "dist"
    target.mkdir(parents=True)
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    commands.download([*words, "--wheel-dir", target, EXAMPLE, FAULTY])
    (pip,) = wheel_folder.glob("pip-*.whl")
    (target / "pip").mkdir()
    shutil.copy(pip, target / "pip")
    return f"python3 /tmp/dist/pip/{pip.name}/pip"

"""List the commands that build and push the artifacts of a release."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.images import definitions
from tools.localcluster import go_binaries

IMAGES = ("koordlet", "manager", "scheduler-plugin", "koordctl", "console")
"""Targets of the Dockerfile, and names of the images below the registry."""
SCHEDULERS = tuple(f"1.{minor}" for minor in go_binaries.plugin_builds())
"""Versions of Kubernetes for which the image koord-scheduler is built: the ends of its tags."""

NO_REGISTRY = 'imageRegistry: ""'
"""Where values.yaml has no registry; a released chart names their registry instead."""


@dataclass(frozen=True)
class Step:
    """One command, and the file that gets its output, if any."""

    argv: tuple[str, ...]
    output: Path | None = None


def build(registry: str, version: str, chart: Path, folder: Path) -> list[Step]:
    """Return the commands that build wheels, images, the Python wheel and the chart archive."""
    images = [
        Step(("docker", "build", "--target", name, "--tag", f"{registry}/{name}:{version}", ".")) for name in IMAGES
    ]
    file = str(definitions.SCHEDULER.relative_to(definitions.REPOSITORY))
    for of in SCHEDULERS:
        tag, context = f"{registry}/koord-scheduler:{version}-{of}", f"dist/kube-scheduler/{of}"
        images.append(Step((sys.executable, "-m", "tools.images", "kube-scheduler", of, context)))
        images.append(Step(("docker", "build", "--file", file, "--tag", tag, context)))
    return [
        Step((sys.executable, "-m", "tools.images", "wheels")),
        Step((sys.executable, "-m", "tools.images", "front-end")),
        Step((sys.executable, "-m", "tools.images", "front-end", "console/front-end")),
        *images,
        Step((sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), ".")),
        Step(("helm", "package", str(chart), "--destination", str(folder))),
    ]


def push(registry: str, version: str, folder: Path) -> list[Step]:
    """Return the commands that push images and chart and record the digests of the images."""
    tags = [*(f"{name}:{version}" for name in IMAGES), *(f"koord-scheduler:{version}-{each}" for each in SCHEDULERS)]
    references = [f"{registry}/{tag}" for tag in tags]
    digest = "{{range .RepoDigests}}{{println .}}{{end}}"
    return [
        *(Step(("docker", "push", reference)) for reference in references),
        Step(("docker", "image", "inspect", "--format", digest, *references), output=folder / "images.txt"),
        Step(("helm", "push", str(folder / f"koord-suite-{version}.tgz"), f"oci://{registry}/charts")),
    ]


def checksums(folder: Path) -> Step:
    """Return the command that writes SHA256SUMS of all files in the folder."""
    return Step(("sh", "-c", f"cd {folder} && sha256sum $(ls | grep -v SHA256SUMS)"), output=folder / "SHA256SUMS")


def copy_chart(source: Path, target: Path, registry: str, home: str = "") -> None:
    """Copy the chart, with the registry of its images, and the URL of its repository if there is one.

    Raises ValueError if its values have no place for the registry.
    """
    shutil.copytree(source, target)
    values = target / "values.yaml"
    text = values.read_text(encoding="utf-8")
    if text.count(NO_REGISTRY) != 1:
        raise ValueError(f"{values}: want {NO_REGISTRY!r} once, seen {text.count(NO_REGISTRY)} times")
    if home:
        with (target / "Chart.yaml").open("a", encoding="utf-8") as chart:
            chart.write(f"home: {home}\nsources: [{home}]\n")
    values.write_text(text.replace(NO_REGISTRY, f"imageRegistry: {registry}"), encoding="utf-8")

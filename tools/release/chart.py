"""Package the chart of a release: the chart of the checkout with the digests of the images, for Artifact Hub described.

`helm package` writes the time of its run into the archive; this one depends on the files alone. The registry is none of
them: `global.imageRegistry` names it at the installation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.release import archives
from tools.release.layouts import Listed
from tools.release.version import ReleaseProblem

CRD = Path("files") / "slo.koordinator.sh_nodemetrics.yaml"
NO_DIGESTS = "\n  imageDigests: {}\n"
"""Where values.yaml has no digests."""
KINDS = {
    "Added": "added", "Changed": "changed", "Deprecated": "deprecated", "Removed": "removed", "Fixed": "fixed",
    "Security": "security",
}  # fmt: skip
"""Headings of CHANGELOG.md, and Artifact Hub's names of them."""
EXAMPLE = {
    "apiVersion": "slo.koordinator.sh/v1alpha1",
    "kind": "NodeMetric",
    "metadata": {"name": "worker-1"},
    "spec": {"metricCollectPolicy": {"aggregateDurationSeconds": 300, "reportIntervalSeconds": 60}},
}
"""The object that the manager makes for a node; the agent of the node writes its status."""


@dataclass(frozen=True)
class Described:
    """Release that a chart describes.

    notes: the section of the changelog. registry, home and maintainers, where they are given, are those that Artifact
    Hub shows.
    """

    version: str
    images: Sequence[Listed]
    notes: str = ""
    registry: str = ""
    home: str = ""
    maintainers: Sequence[Mapping[str, str]] = ()


def package(source: Path, folder: Path, release: Described, epoch: int) -> Path:
    """Write the archive of the chart folder `source` into `folder` and return it. Raises ReleaseProblem."""
    files: dict[str, bytes | Path] = {
        f"koord-suite/{file.relative_to(source)}": file for file in source.rglob("*") if file.is_file()
    }
    chart = yaml.safe_load((source / "Chart.yaml").read_text(encoding="utf-8"))
    crd = yaml.safe_load((source / CRD).read_text(encoding="utf-8"))
    chart["annotations"] |= artifact_hub(release, crd)
    if release.home:
        chart |= {"home": release.home, "sources": [release.home]}
    if release.maintainers:
        chart["maintainers"] = list(release.maintainers)
    files["koord-suite/Chart.yaml"] = _yaml(chart).encode()
    values = (source / "values.yaml").read_text(encoding="utf-8")
    if values.count(NO_DIGESTS) != 1:
        raise ReleaseProblem(f"values.yaml: want {NO_DIGESTS.strip()!r} once, seen {values.count(NO_DIGESTS)} times")
    digests = "".join(f"    {image.title(release.version)}: {image.digest}\n" for image in release.images)
    files["koord-suite/values.yaml"] = values.replace(NO_DIGESTS, f"\n  imageDigests:\n{digests}").encode()
    archive = folder / f"koord-suite-{release.version}.tgz"
    archives.tar(archive, files, epoch)
    return archive


def artifact_hub(release: Described, crd: Mapping[str, Any]) -> dict[str, str]:
    """Return what Artifact Hub shows of the chart (its page "Helm annotations")."""
    kind, newest = crd["spec"]["names"]["kind"], crd["spec"]["versions"][-1]
    name, text = crd["metadata"]["name"], newest["schema"]["openAPIV3Schema"]["description"]
    shown: dict[str, Any] = {
        "crds": [
            {"kind": kind, "version": newest["name"], "name": name, "displayName": kind, "description": text},
        ],
        "crdsExamples": [EXAMPLE],
        "changes": changes(release.notes),
    }
    if release.registry:
        shown["images"] = [
            {
                "name": image.title(release.version),
                "image": f"{release.registry}/{image.name}:{image.tag}@{image.digest}",
            }
            for image in release.images
        ]
    if release.home:
        pages = {"documentation": "docs/index.md", "changelog": "CHANGELOG.md", "security": "SECURITY.md"}
        at = f"{release.home}/blob/v{release.version}"
        shown["links"] = [{"name": name, "url": f"{at}/{page}"} for name, page in pages.items()]
    texts = {name: _yaml(value) for name, value in shown.items() if value}
    texts["prerelease"] = "true" if "-" in release.version else "false"
    return {f"artifacthub.io/{name}": text for name, text in texts.items()}


def changes(notes: str) -> list[dict[str, str]]:
    """Return the entries of a section of the changelog, without their links."""
    listed: list[dict[str, str]] = []
    kind = ""
    for line in notes.splitlines():
        if line.startswith("### "):
            kind = KINDS[line.removeprefix("### ")]
        elif line.startswith("- "):
            listed.append({"kind": kind, "description": line.removeprefix("- ")})
        elif line.startswith("  ") and listed:
            listed[-1]["description"] += f" {line.strip()}"
    for entry in listed:
        entry["description"] = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", entry["description"])
    return listed


def _yaml(document: Any) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=1000, allow_unicode=True)

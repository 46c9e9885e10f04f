"""State how the images and the chart of a release were made: an in-toto statement with SLSA provenance for each.

`provenance-inputs/` has what each image is made of. The times are that of the release, so equal inputs give equal
statements.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools.images import bill_of_materials
from tools.images import layouts as assembled
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.image_archives import sha256
from tools.release import layouts
from tools.release.layouts import Listed

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
BUILD: Final = "https://koord-suite.io/build-types/release/v1"
LOCAL_BUILDER: Final = "https://koord-suite.io/builders/local"
CHART: Final = "koord-suite"
CHARTS: Final = "charts"
"""Folder of the chart in a registry."""


def default_builder() -> str:
    """Return the URI of the workflow that runs this, else of a builder that vouches for nothing."""
    server, workflow = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_WORKFLOW_REF")
    return f"{server}/{workflow}" if server and workflow else LOCAL_BUILDER


def write(folder: Path, version: str, builder: str = "", chart_parameters: Mapping[str, str] | None = None) -> None:
    """Write `provenance/NAME[-TAG].json` for each image index and for the chart of a release in a folder.

    chart_parameters: what was given to the build beside the version, which is part of the chart alone.
    """
    images = layouts.listed(folder / "images")
    by_file = {}
    for image in images:
        file = of_image(folder / "provenance-inputs", image)
        subject = {"name": image.name, "digest": _as_set(image.digest)}
        bills = [bill for _, bill in bills_of(folder, image)]
        parameters = bound_to(f"{image.name}:{image.tag}", version)
        by_file[file.name] = (subject, parameters, json.loads(file.read_text(encoding="utf-8")), bills)
    archive = folder / f"{CHART}-{version}.tgz"
    inputs = [
        bill_of_materials.repository(assembled.commit()),
        *({"name": f"{image.name}:{image.tag}", "digest": _as_set(image.digest)} for image in images),
    ]
    subject = {"name": archive.name, "digest": {"sha256": sha256(archive)}}
    parameters = {**bound_to(f"{CHARTS}/{CHART}:{version}", version), **(chart_parameters or {})}
    by_file[f"{CHART}.json"] = (subject, parameters, inputs, [])
    (folder / "provenance").mkdir(exist_ok=True)
    for name, (subject, parameters, inputs, bills) in by_file.items():
        statement = {
            "_type": STATEMENT,
            "subject": [subject],
            "predicateType": PREDICATE,
            "predicate": _predicate(parameters, builder or default_builder(), inputs, bills),
        }
        (folder / "provenance" / name).write_text(json.dumps(statement, indent=1) + "\n", encoding="utf-8")


def of_image(folder: Path, image: Listed, suffix: str = "") -> Path:
    """Return the file of an image in a folder, which is NAME-TAG.json where images of one name differ, else NAME.json.

    Raises ClusterProblem.
    """
    for name in (f"{image.name}-{image.tag}", image.name):
        if (file := folder / f"{name}{suffix}.json").is_file():
            return file
    raise ClusterProblem(f"{folder / image.name}{suffix}.json: missing, want what is of the image; build it again")


def bills_of(folder: Path, image: Listed) -> list[tuple[str, Path]]:
    """Return the digest of the manifest of each platform, with the bill of materials that is of it."""
    manifests = json.loads(layouts.blob(image.layout, image.digest).read_text(encoding="utf-8"))["manifests"]
    return [
        (entry["digest"], of_image(folder / "sbom", image, f"-{entry['platform']['architecture']}.cdx"))
        for entry in manifests
    ]


def _as_set(digest: str) -> dict[str, str]:
    algorithm, _, hexadecimal = digest.partition(":")
    return {algorithm: hexadecimal}


def bound_to(artifact: str, version: str) -> dict[str, str]:
    """Return what the signature of a provenance binds a digest to: name and tag in the registry, and the version."""
    return {"artifact": artifact, "version": version}


def _predicate(
    parameters: Mapping[str, str], builder: str, inputs: Sequence[Mapping[str, Any]], bills: Sequence[Path]
) -> dict[str, Any]:
    """Return the predicate. The bills of materials are byproducts: its signature is theirs too."""
    time = assembled.created()
    byproducts = [{"name": bill.name, "digest": {"sha256": sha256(bill)}} for bill in bills]
    return {
        "buildDefinition": {
            "buildType": BUILD,
            "externalParameters": dict(parameters),
            "resolvedDependencies": list(inputs),
        },
        "runDetails": {
            "builder": {"id": builder},
            "metadata": {"startedOn": time, "finishedOn": time},
            **({"byproducts": byproducts} if byproducts else {}),
        },
    }

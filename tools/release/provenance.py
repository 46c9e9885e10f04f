"""State how the images and the chart of a release were made: an in-toto statement with SLSA provenance for each.

`provenance-inputs/` has what each image is made of. The times are that of the release, so equal inputs give equal
statements.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

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
_BILL: Final = ".cdx"


def default_builder() -> str:
    """Return the URI of the workflow that runs this, else of a builder that vouches for nothing."""
    server, workflow = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_WORKFLOW_REF")
    return f"{server}/{workflow}" if server and workflow else LOCAL_BUILDER


class _Artifact(NamedTuple):
    """An image index or the chart of a release, and of what it is made."""

    name: str
    subject: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]
    bills: Sequence[Path] = ()


def write(folder: Path, version: str, builder: str = "", chart_parameters: Mapping[str, str] | None = None) -> None:
    """Write `provenance/NAME[-TAG].json` for each image index and for the chart of a release in a folder.

    chart_parameters: what was given to the build beside the version, which is part of the chart alone.
    """
    (folder / "provenance").mkdir(exist_ok=True)
    for name, artifact in _artifacts(folder, version).items():
        parameters = bound_to(artifact.name, version)
        if not artifact.bills:
            parameters |= chart_parameters or {}
        statement = {
            "_type": STATEMENT,
            "subject": [artifact.subject],
            "predicateType": PREDICATE,
            "predicate": _predicate(parameters, builder or default_builder(), artifact.inputs, artifact.bills),
        }
        (folder / "provenance" / name).write_text(json.dumps(statement, indent=1) + "\n", encoding="utf-8")


def problems(folder: Path, version: str) -> Iterator[str]:
    """Return where the images, bills of materials and chart in a folder are not those of its statements."""
    for name, artifact in _artifacts(folder, version).items():
        file = folder / "provenance" / name
        if not file.is_file():
            yield f"{file}: missing, want what is of {artifact.name}; build it again"
            continue
        statement = json.loads(file.read_text(encoding="utf-8"))
        stated = _digests(statement["subject"], _byproducts(statement))
        present = _digests([artifact.subject], map(_descriptor, artifact.bills))
        if not artifact.bills:
            stated |= _digests(_inputs(statement))
            present |= _digests(artifact.inputs)
        for part in sorted({*stated, *present}):
            if (seen := present.get(part, "none")) != (wanted := stated.get(part, "none")):
                yield f"{folder}: {part}: seen {seen}, want {wanted} of {file.name}; build it again"


def commits(statement: Mapping[str, Any]) -> set[str]:
    """Return the commits of which a statement's artifact is."""
    return {entry["digest"]["gitCommit"] for entry in _inputs(statement) if "gitCommit" in entry["digest"]}


def parts(statement: Mapping[str, Any]) -> set[str]:
    """Return the package URLs of what a statement's image is made of, beside this repository."""
    return {entry["uri"] for entry in _inputs(statement) if "gitCommit" not in entry["digest"]}


def bills_for(statement: Mapping[str, Any], architecture: str) -> list[str]:
    """Return the digests of the bills of materials that a statement names for an architecture."""
    named = _digests(_byproducts(statement))
    return [digest for name, digest in named.items() if name.endswith(f"-{architecture}{_BILL}.json")]


def _artifacts(folder: Path, version: str) -> dict[str, _Artifact]:
    """Return what is in the folder of a release, by the names of the statements."""
    images = layouts.listed(folder / "images")
    artifacts = {}
    for image in images:
        file = of_image(folder / "provenance-inputs", image)
        subject = {"name": image.name, "digest": _as_set(image.digest)}
        inputs = json.loads(file.read_text(encoding="utf-8"))
        bills = [bill for _, bill in bills_of(folder, image)]
        artifacts[file.name] = _Artifact(f"{image.name}:{image.tag}", subject, inputs, bills)
    archive = folder / f"{CHART}-{version}.tgz"
    if not archive.is_file():
        raise ClusterProblem(f"{archive}: missing, want the chart of {version}; build it")
    inputs = [
        bill_of_materials.repository(assembled.commit()),
        *({"name": f"{image.name}:{image.tag}", "digest": _as_set(image.digest)} for image in images),
    ]
    artifacts[f"{CHART}.json"] = _Artifact(f"{CHARTS}/{CHART}:{version}", _descriptor(archive), inputs)
    return artifacts


def _descriptor(file: Path) -> dict[str, Any]:
    return {"name": file.name, "digest": {"sha256": sha256(file)}}


def _inputs(statement: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the inputs of a build; cosign leaves out a digest that is empty."""
    return [{"digest": {}, **entry} for entry in statement["predicate"]["buildDefinition"]["resolvedDependencies"]]


def _byproducts(statement: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return list(statement["predicate"]["runDetails"].get("byproducts", ()))


def _digests(*described: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return digests by name, without commits."""
    entries = (entry for entries in described for entry in entries if "sha256" in entry["digest"])
    return {entry["name"]: f"sha256:{entry['digest']['sha256']}" for entry in entries}


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
        (entry["digest"], of_image(folder / "sbom", image, f"-{entry['platform']['architecture']}{_BILL}"))
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
    byproducts = [_descriptor(bill) for bill in bills]
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

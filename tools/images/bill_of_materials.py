"""What images are made of: CycloneDX documents, and the inputs of the build by digest."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.images import front_end
from tools.images.recipes import Recipe
from tools.localcluster.host import commands

_ALGORITHMS = {"sha256": "SHA-256", "sha512": "SHA-512"}


class Part(NamedTuple):
    """A part of an image. digest: hexadecimal, by algorithm; `dirHash` is Go's h1 sum of a module."""

    name: str
    version: str
    purl: str
    digest: Mapping[str, str]

    def as_input(self) -> dict[str, Any]:
        """Return it as an input of the build."""
        return {"name": f"{self.name} {self.version}", "uri": self.purl, "digest": dict(self.digest)}

    def as_component(self) -> dict[str, Any]:
        """Return it as CycloneDX has it."""
        hashes = [
            {"alg": _ALGORITHMS[name], "content": text} for name, text in self.digest.items() if name in _ALGORITHMS
        ]
        component = {"type": "library", "bom-ref": self.purl, "name": self.name, "version": self.version}
        return {**component, "purl": self.purl, **({"hashes": hashes} if hashes else {})}


def parts(recipe: Recipe, architecture: str) -> list[Part]:
    """Return what an image is made of, beside this repository."""
    packages = recipe.debian(architecture)
    listed = [Part(part.name, part.version, part.purl(), {"sha256": part.sha256()}) for part in packages]
    wheels = recipe.distributions(architecture)
    listed += [Part(part.name, part.version, part.purl(), {"sha256": part.sha256()}) for part in wheels]
    if recipe.needs_front_end:
        listed += _front_end()
    if program := recipe.program(architecture):
        listed += go_modules(program)
    return sorted(listed)


def document(name: str, tag: str, created: str, digest: str, of_parts: Sequence[Part]) -> dict[str, Any]:
    """Return the CycloneDX document of the image with a digest: the same one for the same image."""
    reference = f"pkg:oci/{name}@{digest.replace(':', '%3A')}?tag={tag}"
    image = {"type": "container", "bom-ref": reference, "name": name, "version": tag, "purl": reference}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {"timestamp": created, "component": image},
        "components": [part.as_component() for part in of_parts],
        "dependencies": [{"ref": reference, "dependsOn": [part.purl for part in of_parts]}],
    }


def subject(of_image: Mapping[str, Any]) -> str:
    """Return the digest of the image that a document is about."""
    purl = str(of_image["metadata"]["component"]["purl"])
    return purl.partition("@")[2].partition("?")[0].replace("%3A", ":")


def repository(commit: str) -> dict[str, Any]:
    """Return this repository as an input of the build; its address depends on who releases."""
    return {"name": "koord-suite", "uri": f"pkg:generic/koord-suite@{commit}", "digest": {"gitCommit": commit}}


def _front_end() -> list[Part]:
    locked = json.loads(front_end.LOCK.read_text())["packages"]
    return [
        Part(
            package["name"],
            package["version"],
            f"pkg:npm/{package['name']}@{package['version']}",
            {"sha512": base64.b64decode(package["integrity"].removeprefix("sha512-")).hex()},
        )
        for package in locked
        if package["shipped"]
    ]


def go_modules(program: Path) -> list[Part]:
    """Return Go's own library and the modules that a Go program states, these with the sums of go.sum."""
    first, *lines = commands.run(["go", "version", "-m", program]).splitlines()
    modules = [["stdlib", first.rpartition(": go")[2]]]
    for words in (line.split("\t")[1:] for line in lines):
        if words[0] == "dep":
            modules.append(words[1:])
        elif words[0] == "=>":  # what replaces the module before
            modules[-1] = words[1:]
    return [
        Part(name, version, f"pkg:golang/{name}@{version}",
             {"dirHash": base64.b64decode(sums[0].removeprefix("h1:")).hex()} if sums and sums[0] else {})
        for name, version, *sums in modules
    ]  # fmt: skip

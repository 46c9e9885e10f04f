"""Verify what a registry has of a release: signatures, provenance, bills of materials, and the content of each image.

A tag is trusted for no more than a digest; all else is of that digest.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tools.images import check, recipes
from tools.localcluster import progress
from tools.localcluster.errors import ClusterProblem
from tools.release import layouts, provenance
from tools.release.publish import BILL, cosign, oras

SIGNATURE: Final = "https://sigstore.dev/cosign/sign/v1"


class Trust(NamedTuple):
    """Whom the one who verifies trusts: who holds a key, or the identity of a certificate of an issuer."""

    builder: str
    key: Path | None = None
    identity: str = ""
    issuer: str = ""

    @property
    def signer(self) -> str:
        """Return who must have signed."""
        return str(self.key or self.identity)

    def options(self) -> tuple[object, ...]:
        """Return what cosign is given. Of a key there is no entry in a transparency log."""
        if self.key:
            return ("--key", self.key, "--insecure-ignore-tlog")
        return ("--certificate-identity", self.identity, "--certificate-oidc-issuer", self.issuer)


class Verified(NamedTuple):
    """What there is of an image or the chart: a row of the table."""

    name: str
    digest: str = "-"
    signed: bool = False
    builder: str = "-"
    bills: int = 0
    megabytes: float = 0


def released(version: str) -> dict[str, list[str]]:
    """Return the tags of each image of a version."""
    return {name: [recipe.tag(version) for recipe in tags] for name, tags in recipes.released().items()}


def verify(registry: str, version: str, trust: Trust, images: Mapping[str, Sequence[str]]) -> list[str]:
    """Print a table of the images, which are tags by name, and the chart; return what is wrong, a line each."""
    rows, problems = [], list[str]()
    names = [(f"{name}:{tag}", True) for name, tags in images.items() for tag in tags]
    for name, is_image in [*names, (f"{provenance.CHARTS}/{provenance.CHART}:{version}", False)]:
        with progress.step(f"verifying {name}"):
            row, wrong = _verify(registry, name, version, trust, is_image=is_image)
        rows.append(row)
        problems += wrong
    print(_table(rows), end="")
    return problems


def _verify(registry: str, name: str, version: str, trust: Trust, *, is_image: bool) -> tuple[Verified, list[str]]:
    repository, _, tag = name.rpartition(":")
    try:
        digest = oras("resolve", f"{registry}/{name}").strip()
    except ClusterProblem as problem:
        return Verified(name), [f"{name}: seen nothing ({problem}), want a signed digest; push it"]
    reference, problems = f"{registry}/{repository}@{digest}", list[str]()
    signed = _is_signed(reference, trust)
    if not signed:
        problems.append(
            f"{name}: seen no signature of {digest} by {trust.signer}, want one; push it again with that key"
        )
    statements = _statements(reference, trust)
    binding = provenance.bound_to(name, version)
    problems += (f"{name}: {problem}" for problem in _untrusted(statements, digest, binding, trust))
    builders = {_builder(statement) for statement in statements}
    with tempfile.TemporaryDirectory() as temporary:
        layout = Path(temporary) / repository
        try:
            oras("cp", "--to-oci-layout", reference, f"{layout}:{tag}")
        except ClusterProblem as problem:
            problems.append(f"{name}: seen content that is missing or not of its digest ({problem}); push it again")
            return Verified(name, digest, signed, ", ".join(builders)), problems
        (image,) = layouts.listed(layout.parent)
        bills = list(_bills(registry, image)) if is_image else []
        if is_image:
            problems += (f"{problem}; build and push it again" for problem in check.problems(layout))
            problems += (f"{name}: {problem}" for problem in (_unlisted(bills, statements) if statements else ()))
        attached = sum(bool(digests) for _, digests in bills)
        return Verified(name, digest, signed, ", ".join(builders), attached, image.size() / 1e6), problems


def _is_signed(reference: str, trust: Trust) -> bool:
    """Return whether the key signed the digest as such; cosign accepts any statement about it, provenance too."""
    try:
        verified = json.loads(cosign("verify", *trust.options(), reference))
    except ClusterProblem as problem:
        progress.report(str(problem))
        return False
    return any(signature["critical"]["type"] == SIGNATURE for signature in verified)


def _statements(reference: str, trust: Trust) -> list[dict[str, Any]]:
    """Return the provenance of a digest that the key signed."""
    try:
        envelopes = cosign("verify-attestation", *trust.options(), "--type", "slsaprovenance1", reference).splitlines()
    except ClusterProblem as problem:
        progress.report(str(problem))
        return []
    return [json.loads(base64.b64decode(json.loads(envelope)["payload"])) for envelope in envelopes]


def _untrusted(
    statements: Sequence[Mapping[str, Any]], digest: str, binding: Mapping[str, str], trust: Trust
) -> Iterator[str]:
    """Return what is wrong in the provenance of a digest: who built it, and which name and version it was built for."""
    if not statements:
        yield f"seen no provenance by {trust.signer}, want one; push it again with that key"
    for statement in statements:
        subjects = {f"sha256:{subject['digest'].get('sha256')}" for subject in statement["subject"]}
        if digest not in subjects:
            yield f"provenance: seen subject {', '.join(subjects)}, want {digest}; push it again"
        if (builder := _builder(statement)) != trust.builder:
            yield f"provenance: seen builder {builder}, want {trust.builder}; build and push it there"
        stated = statement["predicate"]["buildDefinition"]["externalParameters"]
        for key, value in binding.items():
            if (seen := stated.get(key)) != value:
                yield f"provenance: seen {key} {seen}, want {value}: the tag names another release; push it again"


def _builder(statement: Mapping[str, Any]) -> str:
    return str(statement["predicate"]["runDetails"]["builder"]["id"])


def _bills(registry: str, image: layouts.Listed) -> Iterator[tuple[str, set[str]]]:
    """Return the architecture of each manifest, with the digests of the bills of materials that are attached to it."""
    for entry in json.loads(layouts.blob(image.layout, image.digest).read_text(encoding="utf-8"))["manifests"]:
        repository = f"{registry}/{image.name}"
        words = ("--artifact-type", BILL, "--format", "json", f"{repository}@{entry['digest']}")
        digests = set()
        for referrer in json.loads(oras("discover", *words))["referrers"]:
            manifest = json.loads(oras("manifest", "fetch", f"{repository}@{referrer['digest']}"))
            digests |= {layer["digest"] for layer in manifest["layers"]}
        yield entry["platform"]["architecture"], digests


def _unlisted(bills: Sequence[tuple[str, set[str]]], statements: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Return the architectures without a bill of materials, or with another one than the provenance names."""
    byproducts = [
        byproduct
        for statement in statements
        for byproduct in statement["predicate"]["runDetails"].get("byproducts", ())
    ]
    wanted = {f"sha256:{byproduct['digest']['sha256']}" for byproduct in byproducts}
    for architecture, digests in bills:
        if not digests & wanted:
            seen = ", ".join(sorted(digests)) or "none"
            yield f"bill of materials of {architecture}: seen {seen}, want that of the provenance; push it again"


def _table(rows: Sequence[Verified]) -> str:
    width = max(len(row.name) for row in rows)
    return "".join(
        f"{row.name:{width}}  {row.digest}  {'signed' if row.signed else 'unsigned':8}  SBOMs: {row.bills}"
        f"  {row.megabytes:7.1f} MB  {row.builder}\n"
        for row in rows
    )

"""Verify what a registry has of a release: signatures, provenance, bills of materials, and the content of each image.

A tag is trusted for no more than a digest; all else is of that digest. All images are those that the chart names, built
from one commit.
"""

from __future__ import annotations

import base64
import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tools.images import bill_of_materials, check, recipes
from tools.localcluster import progress
from tools.localcluster.errors import ClusterProblem
from tools.release import layouts, provenance
from tools.release.publish import BILL, cosign, oras

SIGNATURE: Final = "https://sigstore.dev/cosign/sign/v1"


class Trust(NamedTuple):
    """Whom the one who verifies trusts: who holds a key, or the identity of a certificate of an issuer.

    commit: of which the release has to be; any one commit where it is empty.
    """

    builder: str
    key: Path | None = None
    identity: str = ""
    issuer: str = ""
    commit: str = ""

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
    commit: str = ""
    charted: Mapping[str, str] | None = None
    """Of the chart: the digests by which it names the images."""


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
    *of_images, chart = rows
    return [*problems, *_apart(of_images, chart, version), *_of_other_commits(rows, trust.commit or chart.commit)]


def _apart(images: Sequence[Verified], chart: Verified, version: str) -> Iterator[str]:
    """Return the images that the chart names by another digest than their tag."""
    tagged = {image.name.replace(f":{version}", ""): image.digest for image in images}
    if chart.charted is not None:
        for title in sorted({*tagged, *chart.charted}):
            if (seen := chart.charted.get(title)) != (wanted := tagged.get(title)):
                yield (
                    f"{chart.name}: values.yaml: imageDigests: {title}: seen {seen or 'none'}, want {wanted or 'none'}"
                    " of the tag; build chart and images together, and push them"
                )


def _of_other_commits(rows: Sequence[Verified], wanted: str) -> Iterator[str]:
    for row in rows:
        if row.commit != wanted and row.commit and wanted:
            yield f"{row.name}: provenance: seen commit {row.commit}, want {wanted}; build all of it, and push it"


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
    commit = ", ".join(sorted({commit for statement in statements for commit in provenance.commits(statement)}))
    row = Verified(name, digest, signed, ", ".join({_builder(statement) for statement in statements}), commit=commit)
    with tempfile.TemporaryDirectory() as temporary:
        layout = Path(temporary) / repository
        try:
            oras("cp", "--to-oci-layout", reference, f"{layout}:{tag}")
        except ClusterProblem as problem:
            damaged = ", ".join(_damaged(f"{registry}/{repository}", digest)) or problem
            problems.append(f"{name}: seen content that is missing or not of its digest, want {damaged}; push it again")
            return row, problems
        (image,) = layouts.listed(layout.parent)
        row = row._replace(megabytes=image.size() / 1e6)
        if is_image:
            bills, wrong = _bills(registry, image, statements) if statements else ({}, [])
            problems += (f"{name}: {problem}" for problem in wrong)
            labels = {"version": version, "revision": commit} if commit else None
            wrong = check.problems(layout, bills=bills, labels=labels)
            problems += (f"{problem}; build and push it again" for problem in wrong)
            return row._replace(bills=len(bills)), problems
        try:
            return row._replace(charted=_charted(image)), problems
        except (KeyError, TypeError, ValueError, tarfile.TarError) as problem:
            problems.append(f"{name}: seen no chart with digests of images ({problem!r}), want one; push it again")
            return row, problems


def _damaged(name: str, digest: str) -> Iterator[str]:
    """Return the digests of what a manifest reaches that the registry does not have as such."""
    try:
        manifest = json.loads(oras("manifest", "fetch", f"{name}@{digest}"))
    except ClusterProblem:
        yield digest
        return
    for entry in manifest.get("manifests", ()):
        yield from _damaged(name, entry["digest"])
    with tempfile.NamedTemporaryFile() as file:
        for part in (*manifest.get("layers", ()), *([manifest["config"]] if "config" in manifest else ())):
            try:
                oras("blob", "fetch", "--output", file.name, f"{name}@{part['digest']}")
            except ClusterProblem:
                yield part["digest"]


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


def _bills(
    registry: str, image: layouts.Listed, statements: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the bill of materials for each architecture that its manifest and the provenance agree on, and the others.

    The others are a line each: what is attached has to be the one that the provenance names, and be of the manifest.
    """
    bills, problems = dict[str, dict[str, Any]](), list[str]()
    name = f"{registry}/{image.name}"
    for entry in json.loads(layouts.blob(image.layout, image.digest).read_text(encoding="utf-8")).get("manifests", ()):
        architecture = entry.get("platform", {}).get("architecture", "none")
        what = f"bill of materials of {architecture}"
        wanted = {digest for statement in statements for digest in provenance.bills_for(statement, architecture)}
        try:
            seen = set(_attached(name, entry["digest"]))
            texts = [oras("blob", "fetch", "--output", "-", f"{name}@{digest}") for digest in seen & wanted]
        except ClusterProblem as problem:
            problems.append(f"{what}: seen {problem}, want that of the provenance; push it again")
            continue
        if seen != wanted or len(texts) != 1:
            stated = [", ".join(sorted(digests)) or "none" for digests in (seen, wanted)]
            problems.append(
                f"{what}: seen {stated[0]}, want {stated[1]} of the provenance; detach the others, or push it again"
            )
            continue
        bill = json.loads(*texts)
        if (about := bill_of_materials.subject(bill)) != entry["digest"]:
            problems.append(f"{what}: seen one of {about}, want one of {entry['digest']}; build and push it again")
            continue
        bills[architecture] = bill
    listed = {part["purl"] for bill in bills.values() for part in bill["components"]}
    stated = {uri for statement in statements for uri in provenance.parts(statement)}
    if not problems and (differing := sorted(listed ^ stated)):
        problems.append(
            f"provenance: seen inputs that are not those of the bills of materials, {', '.join(differing)},"
            " want the same; build and push it again"
        )
    return bills, problems


def _attached(name: str, digest: str) -> Iterator[str]:
    """Return the digests of the bills of materials that are attached to a manifest."""
    words = ("--artifact-type", BILL, "--format", "json", f"{name}@{digest}")
    for referrer in json.loads(oras("discover", *words))["referrers"]:
        manifest = json.loads(oras("manifest", "fetch", f"{name}@{referrer['digest']}"))
        yield from [layer["digest"] for layer in manifest.get("layers", ())] or [referrer["digest"]]


def _charted(chart: layouts.Listed) -> dict[str, str]:
    """Return the digests by which a chart names images."""
    (layer,) = json.loads(layouts.blob(chart.layout, chart.digest).read_text(encoding="utf-8"))["layers"]
    with tarfile.open(layouts.blob(chart.layout, layer["digest"])) as archive:
        values = archive.extractfile(f"{provenance.CHART}/values.yaml")
        return dict(yaml.safe_load(values.read())["global"]["imageDigests"]) if values else {}


def _table(rows: Sequence[Verified]) -> str:
    width = max(len(row.name) for row in rows)
    return "".join(
        f"{row.name:{width}}  {row.digest}  {'signed' if row.signed else 'unsigned':8}  SBOMs: {row.bills}"
        f"  {row.megabytes:7.1f} MB  {row.builder}\n"
        for row in rows
    )

"""Push a release to a registry, with its bills of materials, provenance and signatures beside it as OCI referrers.

oras and helm push, cosign signs. They log in by docker's configuration (DOCKER_CONFIG) and trust the authority that
SSL_CERT_FILE names. With a key nothing but the registry is contacted: no transparency log, no time stamp.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.images import layouts as assembled
from tools.localcluster import go_binaries, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.image_archives import sha256
from tools.release import layouts, programs, provenance
from tools.release.layouts import Listed

BILL: Final = "application/vnd.cyclonedx+json"
SUMS: Final = "SHA256SUMS"
SUMS_SIGNATURE: Final = f"{SUMS}.sigstore.json"
WITHOUT_LOG: Final = ("--use-signing-config=false", "--tlog-upload=false")


def make_keys(folder: Path) -> None:
    """Write cosign.key and cosign.pub into a folder; COSIGN_PASSWORD, else the terminal, has the password."""
    command = [programs.program("cosign"), "generate-key-pair", "--output-key-prefix", folder / "cosign"]
    if code := subprocess.call([str(word) for word in command]):
        raise ClusterProblem(f"cosign generate-key-pair: exit {code}, see above")


def push(folder: Path, registry: str, version: str, key: Path | None = None) -> None:
    """Push what `build` wrote into a folder, and sign it by a key, or keyless as the workflow that runs this.

    A key is read by the password in COSIGN_PASSWORD, else of the terminal. Nothing is pushed of a folder that is not a
    whole release, or over a tag with another digest. Raises ClusterProblem.
    """
    images = _finished(folder, version)
    for image in images:
        _require_free(f"{registry}/{image.name}:{image.tag}", image.digest)
    archive = folder / f"{provenance.CHART}-{version}.tgz"
    _require_free(f"{registry}/{provenance.CHARTS}/{provenance.CHART}:{version}", f"sha256:{sha256(archive)}")
    if key and "COSIGN_PASSWORD" not in os.environ:
        os.environ["COSIGN_PASSWORD"] = getpass.getpass(f"password of {key}: ")
    signing = ("--yes", "--key", str(key), *WITHOUT_LOG) if key else ("--yes",)
    for image in images:
        with progress.step(f"pushing {image.name}:{image.tag}"):
            name = f"{registry}/{image.name}"
            oras("cp", "--from-oci-layout", f"{image.layout}:{image.tag}", f"{name}:{image.tag}")
            for digest, bill in provenance.bills_of(folder, image):
                _attach(f"{name}@{digest}", bill)
            _sign(f"{name}@{image.digest}", provenance.of_image(folder / "provenance", image), signing)
    with progress.step("pushing the chart"):
        helm = [go_binaries.client("helm"), "push", archive, f"oci://{registry}/{provenance.CHARTS}"]
        # helm states the time of the file, in the zone of the machine, in what it pushes.
        epoch = assembled.epoch()
        os.utime(archive, (epoch, epoch))
        environment = {**os.environ, "TZ": "UTC"}
        ended = subprocess.run(
            [str(word) for word in helm], capture_output=True, text=True, check=False, env=environment
        )
        pushed = re.search(r"^Digest: (\S+)$", ended.stdout + ended.stderr, re.MULTILINE)
        if ended.returncode or pushed is None:
            raise ClusterProblem(f"helm push {archive}: exit {ended.returncode}: {commands.last_errors(ended.stderr)}")
        chart = f"{registry}/{provenance.CHARTS}/{provenance.CHART}@{pushed[1]}"
        _sign(chart, folder / "provenance" / f"{provenance.CHART}.json", signing)
    cosign("sign-blob", *signing, "--bundle", folder / SUMS_SIGNATURE, folder / SUMS)


def _finished(folder: Path, version: str) -> list[Listed]:
    """Return the images of a release that was built to its end and is unchanged. Raises ClusterProblem."""
    sums = folder / SUMS
    lines = sums.read_text(encoding="utf-8").splitlines() if sums.is_file() else []
    if not lines:
        raise ClusterProblem(f"{folder}: no finished release; run `make release`, and push what it wrote")
    for line in lines:
        digest, _, name = line.partition("  ")
        if (seen := sha256(folder / name)) != digest:
            raise ClusterProblem(f"{folder / name}: seen sha256 {seen}, want {digest} of {SUMS}; build it again")
    for problem in provenance.problems(folder, version):
        raise ClusterProblem(problem)
    return layouts.listed(folder / "images")


def _require_free(name: str, digest: str) -> None:
    """Refuse to change what a tag names: the digest of an image or of the archive in a chart. Raises ClusterProblem."""
    try:
        seen = [oras("resolve", name).strip()]
        seen += [layer["digest"] for layer in json.loads(oras("manifest", "fetch", name)).get("layers", ())]
    except ClusterProblem as problem:
        if "not found" in str(problem):
            return
        raise
    if digest not in seen:
        raise ClusterProblem(f"{name}: seen {', '.join(seen)} in the registry, want {digest}; release another version")


def oras(*words: object, folder: Path | None = None) -> str:
    """Run oras and return what it prints. Raises ClusterProblem."""
    return commands.run([programs.program("oras"), *words], folder=folder)


def cosign(*words: object) -> str:
    """Run cosign and return what it prints. Raises ClusterProblem."""
    return commands.run([programs.program("cosign"), *words])


def _attach(manifest: str, bill: Path) -> None:
    """Attach a bill of materials to a manifest; without the time of now a second push attaches the same."""
    time = f"org.opencontainers.image.created={assembled.created()}"
    words = ("--artifact-type", BILL, "--annotation", time, manifest, f"{bill.name}:{BILL}")
    oras("attach", *words, folder=bill.parent)


def _sign(reference: str, statement: Path, signing: Sequence[str]) -> None:
    """Sign what a digest names, and attach its provenance, signed."""
    cosign("sign", *signing, reference)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as predicate:
        json.dump(json.loads(statement.read_text(encoding="utf-8"))["predicate"], predicate)
        predicate.flush()
        cosign("attest", *signing, "--type", "slsaprovenance1", "--predicate", predicate.name, reference)

"""A registry with a release: what was pushed is accepted, what was changed afterwards is refused, by the real cosign.

The registry has TLS, a password and no API for referrers, which are found by tags there. Its images are small, and of
the form of those that are released.
"""

from __future__ import annotations

import dataclasses
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.images import bill_of_materials, distributions, file_trees, layouts, recipes
from tools.images.file_trees import PROGRAM, File
from tools.localcluster import content_cache, go_binaries, image_archives
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.release import layouts as written
from tools.release import provenance, publish, registry, verify
from tools.release.registry import Registry

VERSION = "0.1.0-rc.1"
NAME, TAG = "koord-scheduler", f"{VERSION}-1.36"
BUILDER = "https://builder.example/release.yml@v1"
MACHINES = {"amd64": 62, "arm64": 183}
PLACE = "usr/local/bin/kube-scheduler"
PART = bill_of_materials.Part("a", "1", "pkg:npm/a@1", {})
"""Without a digest, and nothing of it states in the image that it is there."""
OTHER_COMMIT, OTHER_DIGEST = "0" * 40, f"sha256:{0:064}"

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Release(NamedTuple):
    """A folder of a release, and the place for it in a registry."""

    folder: Path
    source: Registry
    name: str

    @property
    def registry(self) -> str:
        """Return HOST:PORT/PATH, of this case alone."""
        return f"{self.source.address}/{self.name}"

    @property
    def image(self) -> written.Listed:
        """Return the index of the image."""
        (image,) = written.listed(self.folder / "images")
        return image

    def write(
        self,
        *,
        builder: str = BUILDER,
        machines: Mapping[str, int] = MACHINES,
        user: str = recipes.USER,
        beside: Mapping[str, File] | None = None,
        on_top: Mapping[str, File] | None = None,
        charted: str = "",
    ) -> None:
        """Write an image for each architecture, and a chart.

        It has one program, `beside` it other files, and `on_top` those of another layer.
        """
        by_architecture = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(content_cache, "ROOT", self.folder.parent / "cache")
            for architecture, machine in machines.items():
                # Of this case alone: a registry has equal layers once.
                content = program(machine) + f"{self.name} {architecture}".encode()
                trees = [{PLACE: File(content, PROGRAM), **(beside or {})}, *([on_top] if on_top else [])]
                layers = [file_trees.layer(f"test-{number}", tree) for number, tree in enumerate(trees)]
                recipe = dataclasses.replace(recipes.scheduler(36), user=user)
                labels = {"version": VERSION, "revision": layouts.commit()}
                configuration = layouts.configuration(recipe, architecture, layers, labels)
                by_architecture[architecture] = layouts.Assembled(configuration, layers)
            digests = layouts.write_layout(self.folder / "images" / NAME, {TAG: by_architecture})
        for architecture, digest in digests[TAG].items():
            bill = bill_of_materials.document(NAME, TAG, layouts.created(), digest, [PART])
            self._write(f"sbom/{NAME}-{TAG}-{architecture}.cdx.json", json.dumps(bill))
        inputs = [bill_of_materials.repository(layouts.commit()), PART.as_input()]
        self._write(f"provenance-inputs/{NAME}-{TAG}.json", json.dumps(inputs))
        self._write("chart/Chart.yaml", f"apiVersion: v2\nname: koord-suite\nversion: {VERSION}\n")
        named = {f"{NAME}-1.36": charted or self.image.digest}
        self._write("chart/values.yaml", json.dumps({"global": {"imageDigests": named}}))
        commands.run([go_binaries.client("helm"), "package", self.folder / "chart", "--destination", self.folder])
        chart = self.folder / f"koord-suite-{VERSION}.tgz"
        self._write(publish.SUMS, f"{image_archives.sha256(chart)}  {chart.name}\n")
        provenance.write(self.folder, VERSION, builder)

    def _write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def push(self, key: str = "own") -> None:
        """Push it, signed with one of the two keys."""
        publish.push(self.folder, self.registry, VERSION, self.source.folder / key / "cosign.key")

    def problems(self, *tags: str) -> list[str]:
        """Return why a user who has the public key refuses it, with these tags of the image beside its own."""
        trust = verify.Trust(BUILDER, self.source.folder / "own" / "cosign.pub")
        return verify.verify(self.registry, VERSION, trust, {NAME: [TAG, *tags]})

    def manifest(self, architecture: str) -> str:
        """Return the digest of the image for an architecture."""
        index = json.loads(written.blob(self.image.layout, self.image.digest).read_text())
        (manifest,) = (entry for entry in index["manifests"] if entry["platform"]["architecture"] == architecture)
        return str(manifest["digest"])

    def stored_layer(self, architecture: str) -> Path:
        """Return the file of the layer for an architecture in the registry's storage."""
        (layer,) = json.loads(written.blob(self.image.layout, self.manifest(architecture)).read_text())["layers"]
        digest = layer["digest"].removeprefix("sha256:")
        return self.source.folder / f"storage/docker/registry/v2/blobs/sha256/{digest[:2]}/{digest}/data"


def program(machine: int) -> bytes:
    """Return the head of an ELF file without segments."""
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHI", 2, machine, 1).ljust(48, b"\0")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Run the registry, which the programs of this process trust and log in to, with two pairs of keys."""
    with pytest.MonkeyPatch.context() as patch, registry.running(tmp_path_factory.mktemp("registry")) as running:
        for name, value in {**running.environment, "COSIGN_PASSWORD": "of this test"}.items():
            patch.setenv(name, value)
        for owner in ("own", "other"):
            (running.folder / owner).mkdir()
            publish.make_keys(running.folder / owner)
        yield running


@pytest.fixture
def release(source: Registry, tmp_path: Path, request: pytest.FixtureRequest) -> Release:
    """Return a release that is neither written nor pushed."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return Release(tmp_path / "dist", source, name)


def change_a_byte(release: Release) -> None:
    release.write()
    release.push()
    layer = release.stored_layer("arm64")
    layer.write_bytes(layer.read_bytes()[:-1] + b"x")


def lose_a_layer(release: Release) -> None:
    release.write()
    release.push()
    release.stored_layer("arm64").unlink()


def mix_architectures(release: Release) -> None:
    release.write(machines={"amd64": MACHINES["amd64"], "arm64": MACHINES["amd64"]})
    release.push()


def build_elsewhere(release: Release) -> None:
    release.write(builder="https://elsewhere.example")
    release.push()


def replace_by_unsigned(release: Release) -> None:
    release.write()
    release.push()
    release.write(machines={"amd64": MACHINES["amd64"]})
    publish.oras("cp", "--from-oci-layout", f"{release.image.layout}:{TAG}", f"{release.registry}/{NAME}:{TAG}")


def sign_by_another_key(release: Release) -> None:
    release.write()
    release.push("other")


def attach_the_bill_of_another(release: Release) -> None:
    release.write()
    release.push()
    bill = f"{NAME}-{TAG}-amd64.cdx.json:{publish.BILL}"
    reference = f"{release.registry}/{NAME}@{release.manifest('arm64')}"
    publish.oras("attach", "--artifact-type", publish.BILL, reference, bill, folder=release.folder / "sbom")


def add_a_package_to_the_image(release: Release) -> None:
    folder = f"{distributions.FOLDER}/a-1.dist-info"
    texts = {
        "METADATA": "Name: a\nVersion: 1\n",
        "WHEEL": "Tag: py3-none-any\n",
        "RECORD": "".join(f"a-1.dist-info/{name},,\n" for name in ("METADATA", "WHEEL", "RECORD")),
    }
    release.write(beside={f"{folder}/{name}": File(text.encode()) for name, text in texts.items()})
    release.push()


def state_other_inputs(release: Release) -> None:
    release.write()
    inputs = release.folder / "provenance-inputs" / f"{NAME}-{TAG}.json"
    inputs.write_text(json.dumps([bill_of_materials.repository(layouts.commit())]))
    provenance.write(release.folder, VERSION, BUILDER)
    release.push()


def put_a_layer_on_top(release: Release) -> None:
    release.write(on_top={PLACE: File(link="/tmp/program")})
    release.push()


def run_as_root(release: Release) -> None:
    release.write(user="0:0")
    release.push()


def name_one_platform(release: Release) -> None:
    release.write()
    release.push()
    publish.oras("tag", f"{release.registry}/{NAME}@{release.manifest('amd64')}", TAG)


def name_another_image_in_the_chart(release: Release) -> None:
    release.write(charted=OTHER_DIGEST)
    release.push()


def build_the_chart_of_another_commit(release: Release) -> None:
    release.write()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "commit", lambda: OTHER_COMMIT)
        provenance.write(release.folder, VERSION, BUILDER)
    release.push()


CHART, IMAGE = f"charts/koord-suite:{VERSION}", f"{NAME}:{TAG}"
NO_PROVENANCE, NO_SIGNATURE = r"{}: seen no provenance by .*cosign\.pub", r"{}: seen no signature of sha256:\w+ by "
NOT_SIGNED = [text.format(IMAGE) for text in (NO_SIGNATURE, NO_PROVENANCE)]
OF_THE_TAG = rf"{CHART}: values.yaml: imageDigests: {NAME}-1.36: seen sha256:\w+, want sha256:\w+ of the tag"
NOT_THE_CONTENT = rf"{IMAGE}: seen content that is missing or not of its digest"


def test_what_was_pushed_is_accepted(release: Release, capsys: pytest.CaptureFixture[str]) -> None:
    release.write()
    release.push()
    assert release.problems() == []
    image, chart = capsys.readouterr().out.splitlines()
    assert image.startswith(f"{IMAGE}")
    assert f"{release.image.digest}  signed    SBOMs: 2 " in image
    assert image.endswith(BUILDER)
    assert chart.endswith(BUILDER)


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        (change_a_byte, [NOT_THE_CONTENT]),
        (lose_a_layer, [NOT_THE_CONTENT]),
        (mix_architectures, [rf"{IMAGE} arm64: {PLACE}: seen an ELF file of amd64, want arm64"]),
        (
            build_elsewhere,
            [rf"{name}: provenance: seen builder https://elsewhere.example, want {BUILDER}" for name in (IMAGE, CHART)],
        ),
        (
            replace_by_unsigned,
            [
                *NOT_SIGNED,
                f"{IMAGE}: seen amd64, want amd64, arm64",
                OF_THE_TAG,
            ],
        ),
        (
            sign_by_another_key,
            [text.format(name) for name in (IMAGE, CHART) for text in (NO_SIGNATURE, NO_PROVENANCE)],
        ),
        (name_one_platform, [*NOT_SIGNED, f"{NAME}: seen no image, want amd64, arm64", OF_THE_TAG]),
        (
            attach_the_bill_of_another,
            [rf"{IMAGE}: bill of materials of arm64: seen sha256:\w+, sha256:\w+, want sha256:\w+ of the provenance"],
        ),
        (
            add_a_package_to_the_image,
            [f"{IMAGE} {name}: pkg:pypi/a@1: seen in the image, want" for name in MACHINES],
        ),
        (state_other_inputs, [f"{IMAGE}: provenance: seen inputs .* not those of the bills of materials, {PART.purl}"]),
        (put_a_layer_on_top, [f"{IMAGE} {name}: seen 2 layers, want 1: own" for name in MACHINES]),
        (run_as_root, [f"{IMAGE} {name}: configuration: seen User 0:0, want {recipes.USER}" for name in MACHINES]),
        (name_another_image_in_the_chart, [OF_THE_TAG]),
        (
            build_the_chart_of_another_commit,
            [rf"{IMAGE}: provenance: seen commit \w+, want {OTHER_COMMIT}"],
        ),
    ],
)
def test_what_was_changed_is_refused(release: Release, change: Callable[[Release], None], problems: list[str]) -> None:
    change(release)
    seen = release.problems()
    print("\n".join(seen))
    assert len(seen) == len(problems)
    assert all(map(re.match, problems, seen))


def test_a_tag_that_names_another_signed_image_is_refused(release: Release) -> None:
    release.write()
    release.push()
    other = f"{VERSION}-1.34"
    publish.oras("tag", f"{release.registry}/{NAME}:{TAG}", other)
    refusal = f"provenance: seen artifact {IMAGE}, want {NAME}:{other}: the tag names another release; push it again"
    assert release.problems(other)[0] == f"{NAME}:{other}: {refusal}"


def test_nothing_is_pushed_over_a_version_or_of_what_was_not_built_to_its_end(release: Release) -> None:
    release.write()
    release.push()
    first = release.image.digest
    release.write(machines={"amd64": MACHINES["amd64"]})
    with pytest.raises(ClusterProblem, match=rf"{IMAGE}: seen {first} in the registry, want {release.image.digest}"):
        release.push()
    release.write(charted=OTHER_DIGEST)
    with pytest.raises(ClusterProblem, match=rf"{CHART}: seen .* in the registry, want sha256:"):
        release.push()
    bill = release.folder / "sbom" / f"{NAME}-{TAG}-arm64.cdx.json"
    bill.write_text(bill.read_text() + " ")
    with pytest.raises(ClusterProblem, match=rf"{bill.name}: seen sha256:.*, want sha256:.* of {NAME}-{TAG}.json"):
        release.push()
    (release.folder / publish.SUMS).write_text("")
    with pytest.raises(ClusterProblem, match="no finished release"):
        release.push()

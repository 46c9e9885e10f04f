"""Files of a release, made of small images: equal bytes from equal inputs, and a bundle that refuses a changed file."""

import hashlib
import json
import os
import subprocess
import tarfile

import pytest
import yaml

from tools.images import recipes
from tools.localcluster import go_binaries
from tools.release import bundle, chart, layouts
from tools.release.version import CHART, REPOSITORY

VERSION, REGISTRY, HOME = "1.2.3-rc.1", "registry.example/team", "https://git.example/team/koord-suite"
PEOPLE = [{"name": "Ada", "email": "ada@example.org"}]
TAGS = {
    **{name: [VERSION] for name in ("koordlet", "manager", "scheduler-plugin", "koordctl", "console")},
    "koord-scheduler": [f"{VERSION}-1.{minor}" for minor in go_binaries.plugin_builds()],
}
NOTES = "### Added\n\n- The agent: [usage](docs/index.md)\n  of nodes.\n"


def layout(folder, tags):
    """Write a layout with one image for each tag, all of one layer."""

    def add(kind, content):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        digest = hashlib.sha256(data).hexdigest()
        (folder / "blobs" / "sha256" / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    (folder / "blobs" / "sha256").mkdir(parents=True)
    listed = []
    for tag in tags:
        config = add("config.v1+json", {"architecture": "amd64", "os": "linux", "config": {"Labels": {"tag": tag}}})
        image = {"schemaVersion": 2, "config": config, "layers": [add("layer.v1.tar+gzip", b"layer")]}
        index = {"schemaVersion": 2, "manifests": [add("manifest.v1+json", image)]}
        listed.append({**add("index.v1+json", index), "annotations": {layouts.TAG: tag}})
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": listed}))


@pytest.fixture
def images(tmp_path):
    for name, tags in TAGS.items():
        layout(tmp_path / "images" / name, tags)
    return layouts.listed(tmp_path / "images")


def packaged(folder, images):
    folder.mkdir()
    return chart.package(CHART, folder, chart.Described(VERSION, images, NOTES, REGISTRY, HOME, PEOPLE), 1_700_000_000)


def test_the_chart_names_the_digests_of_its_images_and_no_registry(tmp_path, images):
    archive = packaged(tmp_path / "a", images)
    os.utime(CHART / "values.yaml")
    assert archive.read_bytes() == packaged(tmp_path / "b", images).read_bytes()
    with tarfile.open(archive) as files:
        described, values = (
            yaml.safe_load(files.extractfile(f"koord-suite/{name}")) for name in ("Chart.yaml", "values.yaml")
        )
    digests = {image.title(VERSION): image.digest for image in images}
    assert values["global"] == {"imageRegistry": "", "imageDigests": digests}
    assert (described["home"], described["sources"], described["maintainers"]) == (HOME, [HOME], PEOPLE)
    shown = {name.partition("/")[2]: yaml.safe_load(text) for name, text in described["annotations"].items()}
    assert shown["changes"] == [{"kind": "added", "description": "The agent: usage of nodes."}]
    assert shown["prerelease"] is True
    references = {image["name"]: image["image"] for image in shown["images"]}
    assert references["koord-scheduler-1.36"] == (
        f"{REGISTRY}/koord-scheduler:{VERSION}-1.36@{digests['koord-scheduler-1.36']}"
    )


def unpacked(tmp_path, images):
    made = [
        bundle.write(folder, VERSION, images, archive, REPOSITORY, 1_700_000_000)
        for folder in (tmp_path / "a", tmp_path / "b")
        if (archive := packaged(folder, images))
    ]
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as files:
        files.extractall(tmp_path, filter="data")
    return tmp_path / made[0].stem


def load(folder, *words, **environment):
    return subprocess.run(
        [folder / "load.sh", *words], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


def test_the_bundle_gives_containerd_every_image_and_refuses_a_changed_file(tmp_path, images):
    folder = unpacked(tmp_path, images)
    ctr = tmp_path / "ctr"
    ctr.write_text(f"#!/bin/sh\ncat >{tmp_path}/imported.tar\n")
    ctr.chmod(0o755)
    assert load(folder, "node", CTR=str(ctr)).returncode == 0
    with tarfile.open(tmp_path / "imported.tar") as files:
        index = json.load(files.extractfile("index.json"))
        inside = {name.rpartition("/")[2] for name in files.getnames()}
    names = [image["annotations"]["io.containerd.image.name"] for image in index["manifests"]]
    assert names == [f"{bundle.REGISTRY}/{image.name}:{image.tag}" for image in images]
    assert {digest.partition(":")[2] for image in images for digest in image.blobs()} <= inside
    for image in images:
        assert [other.digest for other in layouts.listed(folder / "images") if other.name == image.title(VERSION)] == [
            image.digest
        ]
    changed = layouts.blob(folder / "images", images[0].digest)
    changed.write_bytes(changed.read_bytes().replace(b"2", b"3", 1))
    refused = load(folder, "node", CTR=str(ctr))
    assert (refused.returncode, changed.name in refused.stdout + refused.stderr) == (1, True)


def test_the_lists_of_images_agree():
    built = {name: [recipe.tag(VERSION) for recipe in recipes.released()[name]] for name in recipes.released()}
    assert built == TAGS
    assert {recipe.name for recipe in recipes.for_cluster()} == {*built, "workload"}
    page = (REPOSITORY / "RELEASE.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith("| images "))
    assert {name for name in built if f"`{name}`" in line} == built.keys()

"""When an image is built, and with which inputs."""

import shutil
from pathlib import Path

import pytest

from tools.images import building, definitions, wheels
from tools.images.definitions import Image
from tools.localcluster import content_cache


class RecordingBuilder:
    """A Builder that writes the requested reference into the archive."""

    python_version = "3.11"

    def __init__(self, base="base-1"):
        self.base = base
        self.built = []

    def base_key(self):
        return self.base

    def build(self, dockerfile, context, arguments, reference, archive):
        self.built.append((reference, list(arguments)))
        archive.write_text(reference)


@pytest.fixture
def image(tmp_path, monkeypatch):
    monkeypatch.setattr(content_cache, "ROOT", tmp_path / "cache")
    folder = tmp_path / "tool"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\n")
    (folder / "tool.py").write_text("print(1)\n")
    return Image("tool", folder / "Dockerfile", folder, (folder,), target="tool", needs_base=True)


def test_an_unchanged_image_is_built_once_and_keeps_its_name(image):
    builder = RecordingBuilder()
    first, second = building.archive(image, builder), building.archive(image, builder)
    assert first == second
    assert [reference for reference, _ in builder.built] == [f"docker.io/{first.reference}"]
    assert first.file.read_text() == f"docker.io/{first.reference}"


def test_a_changed_source_gives_another_name(image):
    first = building.archive(image, RecordingBuilder())
    (image.context / "tool.py").write_text("print(2)\n")
    assert building.archive(image, RecordingBuilder()).reference != first.reference


def test_another_base_gives_another_name(image):
    first = building.archive(image, RecordingBuilder("base-1"))
    assert building.archive(image, RecordingBuilder("base-2")).reference != first.reference


def test_passes_the_stage_of_the_dockerfile(image):
    builder = RecordingBuilder()
    building.archive(image, builder)
    assert builder.built[0][1] == ["--target", "tool"]


def test_every_defined_image_has_a_dockerfile_and_its_stage():
    for image in definitions.IMAGES:
        text = image.dockerfile.read_text()
        assert not image.target or f" AS {image.target}\n" in text
        assert all(path.exists() for path in image.inputs), image.name


def test_each_component_gets_its_own_libraries_and_the_agent_those_of_its_exporter():
    extras = {"koordlet": ["numpy"], "influxdb": ["influxdb-client"], "manager": ["kopf"], "scheduler": ["numpy"]}
    extras |= {"cli": ["rich"], "console": ["starlette"]}
    wanted = wheels.requirements({"project": {"dependencies": ["lightkube"], "optional-dependencies": extras}})
    assert wanted == {
        "console": ["lightkube", "starlette"],
        "koordlet": ["lightkube", "numpy", "influxdb-client"],
        "koordctl": ["lightkube", "numpy", "rich"],
        "manager": ["lightkube", "kopf", "rich"],
        "scheduler": ["lightkube", "numpy"],
    }


@pytest.mark.skipif(shutil.which("buildah") is None, reason="needs buildah")
def test_buildah_leaves_nothing_outside_its_storage(tmp_path, monkeypatch):
    monkeypatch.setattr(building.Buildah, "storage", tmp_path / "buildah")
    before = set(Path("/etc").glob("cni/**/*"))
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY file /\n")
    (tmp_path / "file").write_text("")
    building.Buildah().build(tmp_path / "Dockerfile", tmp_path, [], "docker.io/test/empty:1", tmp_path / "image.tar")
    assert set(Path("/etc").glob("cni/**/*")) == before
    assert (tmp_path / "buildah" / "networks" / "cni.lock").exists()


def test_everything_that_an_image_copies_is_sent_to_the_builder():
    lines = (content_cache.REPOSITORY / "Dockerfile").read_text().splitlines()
    copied = {line.split()[1] for line in lines if line.startswith("COPY ") and "--" not in line and "$" not in line}
    assert "api_types" in copied
    sent = {line.removeprefix("!") for line in (content_cache.REPOSITORY / ".dockerignore").read_text().splitlines()}
    assert copied <= sent

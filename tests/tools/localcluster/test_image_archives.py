"""Docker-archives: written for the pause image, read for images of the user."""

import json
import tarfile

import pytest

from tools.localcluster import image_archives
from tools.localcluster.errors import ClusterProblem

REFERENCE = "koord-suite/pause:dev-1"


@pytest.fixture
def archive(tmp_path):
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")
    file = tmp_path / "image.tar"
    image_archives.write_program(file, program=program, reference=REFERENCE, user="65535:65535")
    return file


def test_a_written_archive_is_read_with_its_name(archive):
    read = image_archives.read(archive)
    assert (read.name, read.reference, read.file) == ("pause", "koord-suite/pause:dev-1", archive)


def test_the_archive_runs_the_program_as_the_user(archive):
    with tarfile.open(archive) as opened:
        document = json.load(opened.extractfile("config.json"))
        with tarfile.open(fileobj=opened.extractfile("layer.tar")) as layer:
            assert [(entry.name, entry.mode) for entry in layer] == [("pause", 0o755)]
    assert document["config"] == {"Entrypoint": ["/pause"], "User": "65535:65535"}


def test_equal_programs_give_equal_archives(archive, tmp_path):
    second = tmp_path / "second.tar"
    image_archives.write_program(second, program=tmp_path / "pause", reference=REFERENCE, user="65535:65535")
    assert second.read_bytes() == archive.read_bytes()


def test_another_file_is_refused_with_the_fix(tmp_path):
    (tmp_path / "notes.txt").write_text("not an image")
    with pytest.raises(ClusterProblem, match=r"notes.txt: not a docker-archive .*; write one with `docker save"):
        image_archives.read(tmp_path / "notes.txt")

"""Docker-archives: written for the pause image, read for images of the user."""

import json
import tarfile

import pytest

from tools.localcluster import image_archives
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.image_archives import ProgramImage

REFERENCE = "koord-suite/pause:dev-1"
USER = "65535:65535"


def pause(program, **more):
    return ProgramImage(f"docker.io/{REFERENCE}", [program], ["/usr/local/bin/pause"], USER, **more)


def documents(opened, name):
    return json.load(opened.extractfile(name))


@pytest.fixture
def archive(tmp_path):
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")
    file = tmp_path / "image.tar"
    image_archives.write(file, [pause(program)])
    return file


def test_a_written_archive_is_read_with_its_name(archive):
    read = image_archives.read(archive)
    assert (read.name, read.reference, read.file) == ("pause", "koord-suite/pause:dev-1", archive)


def test_the_archive_runs_the_program_as_the_user(archive):
    with tarfile.open(archive) as opened:
        (entry,) = documents(opened, "manifest.json")
        with tarfile.open(fileobj=opened.extractfile(*entry["Layers"])) as layer:
            assert [(each.name, each.mode) for each in layer] == [("usr/local/bin/pause", 0o755)]
        config = documents(opened, entry["Config"])["config"]
    assert (config["Entrypoint"], config["User"]) == (["/usr/local/bin/pause"], USER)
    assert "/usr/local/bin" in config["Env"][0]


def test_equal_programs_give_equal_archives(archive, tmp_path):
    second = tmp_path / "second.tar"
    image_archives.write(second, [pause(tmp_path / "pause")])
    assert second.read_bytes() == archive.read_bytes()


def test_another_file_is_refused_with_the_fix(tmp_path):
    (tmp_path / "notes.txt").write_text("not an image")
    with pytest.raises(ClusterProblem, match=r"notes.txt: not a docker-archive .*; write one with `docker save"):
        image_archives.read(tmp_path / "notes.txt")

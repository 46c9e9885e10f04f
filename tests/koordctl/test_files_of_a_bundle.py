"""The file of `koordctl bundle`: its name, which names are refused before the cluster is read, and what is counted."""

import datetime as dt
import json
import tarfile

import pytest

from component_base import clock
from koordctl import __main__ as koordctl
from koordctl.bundle import archive, command
from tests.fleet import cluster
from tests.koordctl.serving import healthy, kubeconfig_of

NOW = dt.datetime.fromisoformat(cluster.NOW)


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Let the caller have no kubectl, and an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(clock, "utc_now", lambda: NOW)


def bundle(kubeconfig, *words):
    return koordctl.main(["bundle", "--kubeconfig", str(kubeconfig), *words])


def members(path):
    with tarfile.open(path) as found:
        return found.getmembers()


def test_without_a_name_the_file_has_the_time_and_is_in_the_current_folder(tmp_path, capsys):
    with kubeconfig_of(tmp_path, **healthy()) as kubeconfig:
        assert bundle(kubeconfig, "-o", "name") == 0
    (file,) = (tmp_path / "here").iterdir()
    assert file.name == "koord-bundle-20261121-100030.tgz"
    assert capsys.readouterr().out == f"file/{file.name}\n"
    assert {each.mtime for each in members(file)} == {int(NOW.timestamp())}
    assert {each.mode for each in members(file)} == {0o600}


def test_the_answer_has_the_parts_in_the_file_and_its_size(tmp_path, capsys):
    file = tmp_path / "out.tgz"
    with kubeconfig_of(tmp_path, **healthy()) as kubeconfig:
        assert bundle(kubeconfig, "-f", str(file), "-o", "json") == 0
        document = json.loads(capsys.readouterr().out)
        file.unlink()
        assert bundle(kubeconfig, "-f", str(file)) == 0
    names = [each.name.removeprefix("koord-bundle/") for each in members(file)]
    assert document["parts"] == names
    assert names[-1] == "missing.txt"
    assert {"nodes.jsonl", "workloads/koordlet.json", "workloads/koord-scheduler.json"} <= set(names)
    assert (document["file"], document["bytes"] > 0) == (str(file), True)
    assert document["missing"]
    title, *rows, empty, last = capsys.readouterr().out.splitlines()
    assert (title, rows, empty) == ("PART", names[:-1], "")
    size = file.stat().st_size
    assert last.startswith(f"wrote {file}: {len(names) - 1} parts, {size} bytes; secrets are taken out")


@pytest.mark.parametrize("name", ["there.tgz", "absent/new.tgz", "there.tgz/new.tgz"])
def test_a_name_that_cannot_be_made_is_wrong_usage_before_the_cluster_is_read(tmp_path, capsys, name):
    (tmp_path / "there.tgz").write_text("kept")
    file = tmp_path / name
    assert bundle(tmp_path / "no-kubeconfig", "-f", str(file)) == 2
    assert capsys.readouterr().err == f"--file {file}: want a new file in a folder that exists\n"
    assert bundle(tmp_path / "no-kubeconfig", "-f", str(tmp_path / "new.tgz")) == 3
    assert not (tmp_path / "new.tgz").exists()
    assert (tmp_path / "there.tgz").read_text() == "kept"


def test_a_default_name_that_is_taken_is_wrong_usage_too(tmp_path, capsys):
    taken = tmp_path / "here" / "koord-bundle-20261121-100030.tgz"
    taken.write_text("kept")
    with kubeconfig_of(tmp_path, **healthy()) as kubeconfig:
        assert bundle(kubeconfig) == 2
    assert f"--file {taken.name}: " in capsys.readouterr().err
    assert taken.read_text() == "kept"


def test_a_bundle_with_missing_parts_only_is_no_answer(tmp_path):
    with archive.Archive(tmp_path / "a.tgz", 0.0) as made:
        made.missing.append("nodes: no right")
    found = command.answer(tmp_path / "a.tgz", made)
    assert (found.exit_code, found.tables[0].rows) == (3, [])
    assert list(found.notes) == ["not in it: nodes: no right"]
    with archive.Archive(tmp_path / "b.tgz", 0.0) as made:
        made.add("nodes.jsonl", "{}\n")
    assert command.answer(tmp_path / "b.tgz", made).exit_code == 0


def content_of(path):
    with tarfile.open(path) as found:
        return {each.name.removeprefix("koord-bundle/"): found.extractfile(each).read() for each in found.getmembers()}


@pytest.mark.parametrize(
    ("largest", "most", "kept"), [(12, 100, b"second\nthird"), (11, 100, b"third"), (100, 11, b"third")]
)
def test_of_a_text_that_is_too_large_the_last_whole_lines_are_kept(tmp_path, monkeypatch, largest, most, kept):
    monkeypatch.setattr(archive, "LARGEST_FILE_BYTES", largest)
    monkeypatch.setattr(archive, "MOST_BYTES", most)
    text = "second\nthird" if largest == 12 else "first\nsecond\nthird"
    with archive.Archive(tmp_path / "a.tgz", 7.9) as made:
        made.add("log", text)
    found = content_of(tmp_path / "a.tgz")
    assert found["log"] == kept
    limit = min(largest, most)
    missing = f"log: only the last {limit} of {len(text)} bytes are kept\n" if len(text) > limit else ""
    assert found["missing.txt"].decode() == missing


def test_all_files_together_are_limited_and_an_empty_one_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 20)
    with archive.Archive(tmp_path / "a.tgz", 0.0) as made:
        for name, text in (("a", "x" * 12), ("empty", ""), ("b", "y" * 8), ("c", "z")):
            made.add(name, text)
    assert content_of(tmp_path / "a.tgz") == {
        "a": b"x" * 12, "b": b"y" * 8, "missing.txt": b"c: only the last 0 of 1 bytes are kept\n",
    }  # fmt: skip
    assert made.names == ["a", "b", "missing.txt"]


def test_after_an_error_no_file_is_left(tmp_path):
    class Stopped(Exception):
        pass

    def stopped(*, after_removal):
        with archive.Archive(tmp_path / "a.tgz", 0.0) as made:
            made.add("a", "x")
            if after_removal:
                (tmp_path / "a.tgz").unlink()
            raise Stopped

    for after_removal in (False, True):
        with pytest.raises(Stopped):
            stopped(after_removal=after_removal)
        assert not (tmp_path / "a.tgz").exists()

"""Results cached under the hash of their inputs."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tools.localcluster import content_cache


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(content_cache, "ROOT", tmp_path / "cache")
    return tmp_path / "cache"


def sources(folder, **texts):
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


def test_the_same_content_has_the_same_digest_in_any_folder(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    here, there = sources(tmp_path / "app", a="1"), sources(tmp_path / "elsewhere" / "app", a="1")
    assert content_cache.digest(here) == content_cache.digest(there)


@pytest.mark.parametrize("changed", [{"a": "2"}, {"b": "1"}, {"a": "1", "b": ""}])
def test_other_content_other_name_or_one_more_empty_file_changes_the_digest(tmp_path, changed):
    (tmp_path / "other").mkdir()
    first, second = sources(tmp_path / "app", a="1"), sources(tmp_path / "other" / "app", **changed)
    assert content_cache.digest(first) != content_cache.digest(second)


def test_byte_code_does_not_count(tmp_path):
    folder = sources(tmp_path / "app", a="1")
    before = content_cache.digest(folder)
    sources(folder / "__pycache__", **{"a.cpython-311.pyc": "x"})
    assert content_cache.digest(folder) == before


def test_a_result_is_built_once():
    built = []

    def build(folder):
        built.append(folder)
        (folder / "binary").write_text("x")

    first = content_cache.folder("go", "key", build)
    assert content_cache.folder("go", "key", build) == first
    assert len(built) == 1
    assert (first / "binary").read_text() == "x"


def test_of_two_processes_one_builds_and_the_other_waits():
    built = []

    def build(folder):
        built.append(folder)
        time.sleep(0.2)

    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda _: content_cache.folder("go", "key", build), range(2))
    assert len({*results}) == len(built) == 1


def test_a_failed_build_leaves_no_result(root):
    def fail(folder):
        (folder / "half").write_text("x")
        raise RuntimeError("compiler")

    with pytest.raises(RuntimeError):
        content_cache.folder("go", "key", fail)
    assert list((root / "go").iterdir()) == []


def test_the_next_build_removes_an_interrupted_one(root):
    (root / "go" / ".key-abandoned").mkdir(parents=True)
    content_cache.folder("go", "key", lambda folder: None)
    assert [entry.name for entry in (root / "go").iterdir()] == ["key"]

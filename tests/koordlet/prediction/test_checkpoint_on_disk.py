"""What a checkpoint does to the disk: the order in which it is flushed, and the files that it leaves."""

import os
from pathlib import Path

import pytest

from koordlet.prediction import checkpoint
from tests.koordlet.prediction.test_checkpoint import NODE, START, trained_server
from tests.koordlet.test_agent_work import open_below


def test_the_file_is_flushed_before_its_name_and_the_folder_after_it(tmp_path, monkeypatch):
    path = tmp_path / "prediction"
    flushed = []
    fsync = os.fsync

    def noting(descriptor):
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        size = os.fstat(descriptor).st_size if target.is_file() else None
        flushed.append((target.name, path.exists(), size))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    assert checkpoint.save(path, trained_server(3).export(), NODE, START + 90) is None
    assert flushed == [("prediction.tmp", False, path.stat().st_size), (tmp_path.name, True, None)]
    assert open_below(tmp_path) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_probe_writes_and_leaves_everything_as_it_was(tmp_path, is_there):
    path = tmp_path / "prediction"
    if is_there:
        assert checkpoint.save(path, trained_server(3).export(), NODE, START + 90) is None
    before = path.read_bytes() if is_there else None
    assert checkpoint.probe(path) is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["prediction"] * is_there
    assert (path.read_bytes() if is_there else None) == before
    assert open_below(tmp_path) == []

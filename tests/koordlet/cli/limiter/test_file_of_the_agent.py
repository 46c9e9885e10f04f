"""The agent's file for the limiter: when it is written again, and who may read it."""

import os

import pytest

from koordlet.cli.limiter import feed, input_file, replaced_file
from tests.koordlet.cli.limiter import mid_pods


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_every_user_may_read_the_file_of_the_agent(tmp_path, umask):
    file, before = tmp_path / "mid-pods.json", os.umask(umask)
    try:
        feed.Feed(str(file)).write(mid_pods.table(mid_pods.pod()), 0.0, 100.0)
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o644


def test_without_a_mode_a_file_has_that_of_the_process(tmp_path):
    before = os.umask(0o077)
    try:
        replaced_file.replace(tmp_path / "file", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_the_file_is_written_again_after_30_s(tmp_path):
    file = tmp_path / "mid-pods.json"
    table, writer = mid_pods.table(mid_pods.pod()), feed.Feed(str(file))
    writer.write(table, 10.0, 100.0)
    writer.write(table, 39.9, 129.9)
    assert input_file.decoded(file.read_bytes()).at_seconds == 100.0
    writer.write(table, 40.0, 130.0)
    assert input_file.decoded(file.read_bytes()).at_seconds == 130.0


def test_a_file_that_is_not_written_is_tried_again_and_logged_when_its_problem_changes(tmp_path, caplog):
    folder = tmp_path / "folder"
    table, writer = mid_pods.table(mid_pods.pod()), feed.Feed(str(folder / "file"))
    writer.write(table, 0.0, 100.0)
    writer.write(table, 1.0, 101.0)
    assert len(caplog.records) == 1
    folder.mkdir()
    writer.write(table, 2.0, 102.0)
    assert input_file.decoded((folder / "file").read_bytes()).at_seconds == 102.0
    (folder / "file").unlink()
    folder.rmdir()
    writer.write(table, 40.0, 140.0)
    assert len(caplog.records) == 2, "it was written in between"

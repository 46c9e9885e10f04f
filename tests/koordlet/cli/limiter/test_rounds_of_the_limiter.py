"""Rounds of the limiter: what they read again, compare again and write again, and what they leave alone."""

from __future__ import annotations

import os

import pytest

from koordlet.cli.limiter import groups, input_file
from koordlet.cli.limiter.groups import Groups
from koordlet.cli.limiter.input_file import Amounts, Refused
from koordlet.cli.limiter.limiter import Limiter
from tests.koordlet.cli.limiter.test_limiter import A, B, Tree
from tests.koordlet.cli.limiter.test_writes_of_groups import below


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def padded(size):
    return b'{"version":1,"atSeconds":0.0,"pods":{"%s":{"midCpu":500,"midMemory":0}}}'.replace(b"%s", A.encode()).ljust(
        size
    )


def test_an_input_file_has_at_most_256_kib(tree):
    mid = tree.pod(A)
    with pytest.raises(Refused, match="more than 262144 bytes"):
        input_file.decoded(padded(262_145))
    tree.input.write_bytes(padded(262_145))
    (problem,) = tree.round().values()
    assert problem == "it has more than 262144 bytes; the last valid file stays in force"
    assert tree.quota(mid) == -1
    tree.input.write_bytes(padded(262_144))
    assert tree.round() == {}
    assert tree.quota(mid) == 50_000


def test_an_input_file_is_read_again_where_its_time_or_its_size_alone_differs(tree):
    mid = tree.pod(A)
    tree.input.write_bytes(padded(300))
    tree.round()
    os.utime(tree.input, ns=(7, 7))
    tree.round()
    tree.input.write_bytes(padded(300).replace(b"500", b"200"))
    os.utime(tree.input, ns=(8, 8))
    tree.round()
    assert tree.quota(mid) == 20_000
    tree.input.write_bytes(padded(301).replace(b"500", b"300"))
    os.utime(tree.input, ns=(8, 8))
    tree.round()
    assert tree.quota(mid) == 30_000


def test_a_pod_is_compared_every_ten_seconds(tree):
    mid = tree.pod(A)
    tree.order(a=(500, 0))
    tree.round()
    (mid / "cpu.cfs_quota_us").write_text("777")
    for _second in range(9):
        tree.round()
    assert tree.quota(mid) == 777
    tree.round()
    assert tree.quota(mid) == 50_000


def test_a_new_pod_is_limited_beside_one_that_already_is(tree):
    tree.pod(A)
    tree.order(a=(500, 0))
    tree.round()
    other = tree.pod(B)
    tree.order(a=(500, 0), b=(200, 0))
    tree.round()
    assert tree.quota(other) == 20_000
    assert tree.limiter.limited == 2


def test_a_limiter_without_a_record_writes_none(tree, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mid = tree.pod(A)
    tree.order(a=(500, 0))
    before = sorted(tmp_path.rglob("*"))
    limiter = Limiter(tree.input, {"cpu": Groups(tree.folder, groups.CPU)})
    limiter.round(1.0, 0.0)
    assert limiter.problems == {}
    assert tree.quota(mid) == 50_000
    assert sorted(tmp_path.rglob("*")) == before


def test_the_record_is_written_where_the_pods_change(tree):
    tree.pod(A)
    tree.order(a=(500, 0))
    tree.round()
    record = tree.input.with_name("limited")
    assert record.read_text() == f'["{A}"]'
    record.write_text("[]")
    tree.round()
    assert record.read_text() == "[]"
    tree.order(a=(500, 0), b=(500, 0))
    tree.round()
    assert record.read_text() == f'["{A}", "{B}"]'


@pytest.mark.parametrize(("now", "is_old"), [(1300.0, False), (1300.5, True)])
def test_a_file_is_old_after_more_than_five_minutes(tree, now, is_old):
    tree.pod(A)
    tree.input.write_bytes(input_file.encoded(1000.0, {A: Amounts(500, 0)}))
    tree.limiter.round(1.0, now)
    assert list(tree.limiter.problems) == [str(tree.input)] * is_old


def test_a_problem_is_logged_when_it_begins_and_when_it_ends(tree, caplog):
    caplog.set_level("INFO")
    tree.round()
    tree.round()
    tree.order()
    tree.round()
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        (
            "WARNING",
            f"{tree.input}: it is missing: start the agent with --limiter-file; limits stay as they are",
        ),
        ("INFO", f"{tree.input}: solved"),
    ]


def test_a_pod_that_ends_while_it_is_written_is_not_counted(tree):
    (tree.folder / tree.name(A)).mkdir()
    tree.order(a=(500, 64 * 2**20))
    assert tree.round() == {}
    assert tree.limiter.limited == 0


def test_a_round_leaves_no_file_open(tree, tmp_path):
    tree.pod(A)
    tree.order(a=(500, 64 * 2**20))
    before = below(tmp_path)
    tree.round()
    tree.start()
    assert set(below(tmp_path)) == set(before) == {str(tree.folder)}

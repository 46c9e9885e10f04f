from __future__ import annotations

import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.database import Database, DatabaseUnusable
from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot

NOW = 1_700_000_000
HOUR = 3600
LATER = NOW + 10**8


def snapshot(ended: int, duration: str = "15m", value: float = 20.0) -> Snapshot:
    nodes = {"node-1": NodeMetrics([Metric(type="CPU", operator="AVG", value=value)])}
    return Snapshot(ended, records.window_ending_at(duration, ended), "NodeMetric", Data(nodes))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "watcher.sqlite"


@pytest.fixture
def kept(file: Path) -> Iterator[Database]:
    opened = Database(file, retention_seconds=HOUR)
    opened.open()
    yield opened
    opened.close()


def reopened(file: Path) -> Database:
    other = Database(file, retention_seconds=HOUR)
    other.open()
    return other


def test_reads_written_snapshots_after_reopening(kept: Database, file: Path) -> None:
    written = [snapshot(NOW + 60 * step, value=float(step)) for step in range(3)]
    for one in written:
        kept.write(one)
    kept.close()
    assert reopened(file).newest("15m", NOW, LATER) == written


def test_returns_the_last_five_snapshots_within_the_age_limit(kept: Database) -> None:
    for step in range(8):
        kept.write(snapshot(NOW + 60 * step))
        kept.write(snapshot(NOW + 60 * step, "5m"))
    assert [one.window.end - NOW for one in kept.newest("15m", NOW, LATER)] == [180, 240, 300, 360, 420]
    assert [one.window.end - NOW for one in kept.newest("5m", NOW + 360, LATER)] == [360, 420]


def test_deletes_snapshots_older_than_the_retention(kept: Database) -> None:
    kept.write(snapshot(NOW))
    kept.write(snapshot(NOW + HOUR + 1))
    assert [one.window.end for one in kept.newest("15m", 0, LATER)] == [NOW + HOUR + 1]


def test_renames_a_file_that_is_not_a_database_and_creates_a_new_one(file: Path) -> None:
    file.write_bytes(b"not a database" * 100)
    other = reopened(file)
    other.write(snapshot(NOW))
    assert other.newest("15m", NOW, LATER)
    assert file.with_name("watcher.sqlite.unreadable").read_bytes().startswith(b"not a database")


def test_renames_a_file_of_a_later_version(file: Path) -> None:
    later = sqlite3.connect(file)
    later.execute("PRAGMA user_version = 99")
    later.commit()
    later.close()
    reopened(file).write(snapshot(NOW))
    assert file.with_name("watcher.sqlite.unreadable").exists()


@pytest.mark.parametrize("body", [b"no zlib", "text", None, 5, zlib.compress(b"[1]"), zlib.compress(b'{"window":{}}')])
def test_renames_a_file_with_unreadable_rows(kept: Database, file: Path, body: object) -> None:
    kept.write(snapshot(NOW))
    with contextlib.closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE snapshots SET body = ?", (body,))
    assert kept.newest("15m", 0, LATER) == ()
    assert file.with_name("watcher.sqlite.unreadable").exists()
    kept.write(snapshot(NOW))
    assert kept.newest("15m", 0, LATER) == [snapshot(NOW)]


def test_renames_a_file_with_a_foreign_or_broken_schema(kept: Database, file: Path) -> None:
    kept.close()
    file.write_bytes(file.read_bytes().replace(b"sqlite_autoindex", b"sqlite_a\xd8toindex"))
    reopened(file).close()
    file.unlink()
    with contextlib.closing(sqlite3.connect(file)) as other, other:
        other.execute("CREATE TABLE snapshots (a)")
    reopened(file).write(snapshot(NOW))
    assert reopened(file).newest("15m", 0, LATER) == [snapshot(NOW)]


def test_ignores_snapshots_from_the_future(kept: Database) -> None:
    kept.write(snapshot(NOW))
    kept.write(snapshot(NOW + 600))
    assert kept.newest("15m", NOW - 300, NOW) == [snapshot(NOW)]


def test_reports_a_full_disk_and_keeps_the_existing_rows(kept: Database, file: Path) -> None:
    kept.write(snapshot(NOW))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        with pytest.raises(DatabaseUnusable, match=f"{file}"):
            kept.write(snapshot(NOW + 60))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert [one.window.end for one in kept.newest("15m", 0, LATER)] == [NOW]


def test_g1_a_killed_writer_leaves_complete_snapshots(file: Path) -> None:
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from scheduler_plugin.load_watcher.database import Database
from tests.scheduler_plugin.load_watcher.test_database import snapshot
kept = Database(Path({str(file)!r}), retention_seconds=10**9)
kept.open()
for step in range(10**6):
    kept.write(snapshot({NOW} + step))
    print(step, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(20)]
        os.kill(writer.pid, signal.SIGKILL)
    found = reopened(file).newest("15m", 0, LATER)
    assert len(found) == 5
    assert found[-1].window.end >= NOW + int(lines[-1])
    assert all(one == snapshot(one.window.end) for one in found)


def test_a_file_that_becomes_corrupt_is_renamed_by_the_next_write(kept: Database, file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as other:
        with other:
            other.execute("INSERT INTO snapshots VALUES (?, '5m', x'00')", (NOW,))
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = file.read_bytes()
    file.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    kept.write(snapshot(NOW))
    assert file.with_name("watcher.sqlite.unreadable").exists()
    kept.write(snapshot(NOW + 60))
    assert [one.window.end for one in kept.newest("15m", 0, LATER)] == [NOW + 60]

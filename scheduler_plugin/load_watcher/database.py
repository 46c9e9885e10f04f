"""Snapshots of the last hours in a local SQLite file, which a restarted watcher can serve at once (KEP-61).

Requests never read the file. A failure of the file is logged, and the watcher continues in memory. An unreadable file
is renamed and a new one is created. Each replica has its own file.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import Snapshot

log = logging.getLogger(__name__)

_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = "CREATE TABLE snapshots (ended INTEGER, duration TEXT, body BLOB, PRIMARY KEY (duration, ended))"
_OWN: Final = msgspec.json.Decoder(Snapshot)  # five times as fast as `records.decode`, which accepts more
_FASTEST: Final = 1  # level of zlib: a tenth of the size for 15 ms at 5,000 nodes

_UNREADABLE: Final = (sqlite3.Error, zlib.error, ValueError, TypeError)
"""Exceptions of reading a corrupt file: SQLite's text may not be text, and a body may be anything."""


class DatabaseUnusable(Exception):
    """The file cannot be read or written; the message names it and the cause."""


class Database:
    """One SQLite file. Every method raises DatabaseUnusable; calls come from one thread at a time."""

    def __init__(self, file: Path, retention_seconds: float) -> None:
        self._file = file
        self._retention_seconds = retention_seconds
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open or create the file; rename a file that is not a load watcher database to `*.unreadable`."""
        with self._replacing_unreadable():
            self._connect()

    def write(self, snapshot: Snapshot) -> None:
        """Store a snapshot atomically, and delete those older than the retention.

        A corrupt file is renamed, as by `open`; the next snapshot is the first in the new file.
        """
        body = zlib.compress(records.encode(snapshot), _FASTEST)
        oldest = snapshot.window.end - self._retention_seconds
        row = (snapshot.window.end, snapshot.window.duration, body)
        with self._replacing_unreadable(), self._open() as connection:
            connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", row)
            connection.execute("DELETE FROM snapshots WHERE ended < ?", (oldest,))

    def newest(self, duration: str, since: float, until: float) -> Sequence[Snapshot]:
        """Return the last snapshots of a window that ended in [since, until], oldest first, at most `records.KEPT`.

        A snapshot that ended after `until` was written with a wrong clock. A corrupt file is renamed, as by `open`, and
        gives no snapshots.
        """
        with self._replacing_unreadable():
            rows = self._open().execute(
                "SELECT body FROM snapshots WHERE duration = ? AND ended BETWEEN ? AND ? ORDER BY ended DESC LIMIT ?",
                (duration, since, until, records.KEPT),
            )
            return [_snapshot(body, duration) for (body,) in reversed(rows.fetchall())]
        return ()

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> None:
        connection = sqlite3.connect(self._file, check_same_thread=False)
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    @contextlib.contextmanager
    def _replacing_unreadable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._unusable(error) from error
        except _UNREADABLE as error:
            self._replace_unreadable(error)

    def _replace_unreadable(self, cause: Exception) -> None:
        aside = self._file.with_name(self._file.name + ".unreadable")
        log.warning(
            "%s is not a load watcher database (%s); renaming it to %s, creating a new one",
            self._file,
            cause,
            aside.name,
        )
        self.close()
        try:
            self._file.replace(aside)
            for leftover in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    self._file.with_name(self._file.name + leftover).unlink()
            self._connect()
        except (OSError, *_UNREADABLE) as error:
            raise self._unusable(error) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise DatabaseUnusable(f"{self._file} is not open")
        return self._connection

    def _unusable(self, error: Exception) -> DatabaseUnusable:
        return DatabaseUnusable(f"the database {self._file}: {error}; snapshots are kept in memory only")


def _snapshot(body: bytes, duration: str) -> Snapshot:
    snapshot = _OWN.decode(zlib.decompress(body))
    if snapshot.window.duration != duration:
        raise ValueError(f"a row of window {duration} holds window {snapshot.window.duration!r}")
    return snapshot


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, _SCHEMA_VERSION):
        raise sqlite3.DatabaseError(f"its schema has version {version}, want {_SCHEMA_VERSION}")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version == 0 and tables:
        raise sqlite3.DatabaseError("it has tables and no schema version")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if version == 0:
        with connection:
            connection.execute(_SCHEMA)
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

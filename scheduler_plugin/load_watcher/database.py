"""Snapshots of the last hours in one local SQLite file, so that a watcher that was killed answers at once (G1).

Never on the way of an answer: whatever is wrong with the file is told once and the watcher goes on in memory. A file
that cannot be read is set aside and a new one begun. Each replica has a file of its own (G2).
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from scheduler_plugin.load_watcher import records, windows
from scheduler_plugin.load_watcher.records import Snapshot

log = logging.getLogger(__name__)

_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = "CREATE TABLE snapshots (ended INTEGER, duration TEXT, body BLOB, PRIMARY KEY (duration, ended))"
_OWN: Final = msgspec.json.Decoder(Snapshot)  # five times as fast as one that forgives what others write
_FASTEST: Final = 1  # of zlib: a tenth of the size for 15 ms at 5,000 nodes


_UNREADABLE: Final = (sqlite3.Error, zlib.error, ValueError, TypeError)
"""What reading a broken file comes to: SQLite's text may be no text, and a body anything."""


class DatabaseUnusable(Exception):
    """The file cannot be read or written; the message names it and says why."""


class Database:
    """One file. Raises DatabaseUnusable from every method; calls come from one thread at a time."""

    def __init__(self, file: Path, retention_seconds: float) -> None:
        self._file = file
        self._retention_seconds = retention_seconds
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Make or open the file; what is no database of ours is set aside under a name ending in `.unreadable`."""
        try:
            self._connect()
        except sqlite3.OperationalError as error:
            raise self._unusable(error) from error
        except _UNREADABLE as error:
            self._set_aside(error)

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and let go of what is older than the retention. A crash leaves it whole or not at all.

        A file that turns out to be broken is set aside, as when opened; the next snapshot is the first of the new one.
        """
        body = zlib.compress(records.encode(snapshot), _FASTEST)
        oldest = snapshot.window.end - self._retention_seconds
        try:
            with self._open() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)",
                    (snapshot.window.end, snapshot.window.duration, body),
                )
                connection.execute("DELETE FROM snapshots WHERE ended < ?", (oldest,))
        except sqlite3.OperationalError as error:
            raise self._unusable(error) from error
        except sqlite3.Error as error:
            self._set_aside(error)

    def newest(self, duration: str, since: float, until: float) -> Sequence[Snapshot]:
        """The last snapshots of a window that ended within these times, oldest first, as many as a watcher keeps.

        What ended later than now was written by a clock that went wrong. None where the file turns out to be broken:
        it is set aside, as when opened.
        """
        try:
            found = self._open().execute(
                "SELECT body FROM snapshots WHERE duration = ? AND ended BETWEEN ? AND ? ORDER BY ended DESC LIMIT ?",
                (duration, since, until, windows.KEPT),
            )
            return [_snapshot(body, duration) for (body,) in reversed(found.fetchall())]
        except sqlite3.OperationalError as error:
            raise self._unusable(error) from error
        except _UNREADABLE as error:
            self._set_aside(error)
            return ()

    def close(self) -> None:
        """Let go of the file."""
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

    def _set_aside(self, why: Exception) -> None:
        log.warning("%s is no database of the load watcher (%s): it is set aside, a new one begins", self._file, why)
        self.close()
        try:
            self._file.replace(self._file.with_name(self._file.name + ".unreadable"))
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
        raise ValueError(f"a window {snapshot.window.duration!r} stands among those of {duration}")
    return snapshot


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, _SCHEMA_VERSION):
        raise sqlite3.DatabaseError(f"its schema has version {version}, wanted {_SCHEMA_VERSION}")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version == 0 and tables:
        raise sqlite3.DatabaseError("it holds tables, and no version")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if version == 0:
        with connection:
            connection.execute(_SCHEMA)
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

"""Checkpointer: restores the recorded history at the start, saves it every few minutes and at the end, and resets it.

To reset a node, set the annotation `koordinator.sh/reset-prediction` of its NodeMetric to a new text. Each text
triggers one reset, also across restarts: the checkpoint stores the last text that was handled.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import threading
import time
from pathlib import Path
from typing import Final

from koordlet.prediction import checkpoint
from koordlet.prediction.checkpoint import Checkpoint, CheckpointProblem
from koordlet.prediction.evaluation import LiveEvaluation
from koordlet.prediction.server import PredictionServer

log = logging.getLogger(__name__)

FILE_NAME: Final = "prediction.checkpoint"
_FIRST_SECONDS: Final = 60.0
"""Delay of the first checkpoint, after the first training: a crash on the first day of a node loses little."""


class Checkpointer:
    """Saves models and scores in a folder; they are in memory only without a folder or with an unusable one."""

    def __init__(
        self, folder: str, node_name: str, server: PredictionServer, evaluation: LiveEvaluation | None = None
    ) -> None:
        self.path = Path(folder) / FILE_NAME if folder else None
        self.problem: CheckpointProblem | None = None
        self.writes = 0
        self.failures = 0
        self.written_seconds: float | None = None
        """Unix time of the checkpoint on disk, None without a usable one."""
        self._node_name = node_name
        self._server = server
        self._evaluation = evaluation or LiveEvaluation()
        self._reset_mark = ""
        self._is_reset_mark_known = True
        self._is_reset_due = False
        self._wake = asyncio.Event()
        self._write_lock = threading.Lock()
        """Held by the writing thread. Cancelling its waiter, as at the end, does not stop the thread."""

    def restore(self) -> None:
        """Load the checkpoint, and check that a new one can be written.

        Any problem is in the first report, and the agent starts without history.
        """
        if self.path is None:
            return
        self._load(self.path)
        unwritable, before = checkpoint.probe(self.path), self.problem
        if unwritable is None or (before is not None and before.reason == unwritable.reason):
            return
        log.warning("%s", unwritable.message)
        loading = "" if before is None or before.is_first_start else f"{before.message}; "
        self.problem = CheckpointProblem(unwritable.reason, loading + unwritable.message)

    def _load(self, path: Path) -> None:
        stored = checkpoint.load(path, self._node_name)
        if isinstance(stored, CheckpointProblem):
            self.problem = stored
            # The reset may have been done long ago; it must not erase a checkpoint that is only unreadable now.
            self._is_reset_mark_known = stored.is_first_start
            log.log(logging.INFO if stored.is_first_start else logging.WARNING, "%s", stored.message)
            return
        self._server.restore(stored.models, stored.calibration, stored.packages)
        self._server.sizes.by_uid = stored.sizes
        self._server.week = stored.week or self._server.week
        if stored.evaluation is not None:
            self._evaluation.restore(stored.evaluation, time.time(), _boot_seconds())
        self._reset_mark = stored.reset_mark
        self.written_seconds = stored.saved_seconds
        saved = dt.datetime.fromtimestamp(stored.saved_seconds, dt.UTC)
        log.info("%s: history of %d series, saved %s", path, len(stored.models.keys), saved.isoformat())

    async def run(self, interval_seconds: float) -> None:
        """Save at the interval, and at once after a reset, until cancelled. Errors are logged and counted."""
        pause_seconds = min(_FIRST_SECONDS, interval_seconds)
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause_seconds)
            self._wake.clear()
            pause_seconds = interval_seconds
            try:
                await self.save()
            except Exception:
                self.failures += 1
                log.exception("checkpoint failed unexpectedly; trying again after the interval")

    def handle_reset(self, reset_request: str) -> None:
        """Reset the history when the annotation has another text than the last one handled."""
        if not reset_request or reset_request == self._reset_mark:
            return
        self._reset_mark = reset_request
        if not self._is_reset_mark_known:
            self._is_reset_mark_known = True
            log.warning(
                "ignoring reset-prediction=%r, it may predate this checkpoint; set a new value to force a reset",
                reset_request,
            )
            return
        self._server.forget()
        self._evaluation.forget()
        log.warning("history reset by the annotation reset-prediction=%r; every pod is cold again", reset_request)
        self._is_reset_due = True
        self._wake.set()

    async def save(self) -> None:
        """Write a checkpoint. A failure sets the problem, a success clears it."""
        if self.path is None:
            return
        models, is_reset = self._server.export(), self._is_reset_due
        if not models.keys and not is_reset:
            return
        now = time.time()
        content = Checkpoint(
            self._node_name,
            now,
            models,
            self._reset_mark,
            self._evaluation.export(now, _boot_seconds()),
            self._server.calibration.export(),
            self._server.packages.states(),
            self._server.sizes.by_uid,
            self._server.week,
        )
        problem = await asyncio.to_thread(self._write, self.path, content, is_reset)
        self.writes += problem is None
        self.failures += problem is not None
        if problem is None:
            self.written_seconds = now
            self._is_reset_due &= not is_reset
        elif problem != self.problem:
            log.warning("%s", problem.message)
        self.problem = problem

    def _write(self, path: Path, content: Checkpoint, is_reset: bool) -> CheckpointProblem | None:
        with self._write_lock:
            return checkpoint.save(path, content, is_reset=is_reset)

    @property
    def problem_text(self) -> str | None:
        """Why the history is not stored on disk, None when it is; a first start is no problem."""
        return None if self.problem is None or self.problem.is_first_start else self.problem.message


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)

"""Checkpointer: restores the recorded history at the start, saves it every few minutes and at the end, and resets it.

To reset a node, set the annotation `koordinator.sh/reset-prediction` of its NodeMetric to a new text. Each text
triggers one reset, also across restarts: the checkpoint stores the last text that was handled.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from koordlet.prediction import checkpoint, checkpoint_format, evaluation_state
from koordlet.prediction.calibration import state_format
from koordlet.prediction.checkpoint import CheckpointProblem
from koordlet.prediction.evaluation import LiveEvaluation
from koordlet.prediction.packages import states
from koordlet.prediction.server import PredictionServer

log = logging.getLogger(__name__)

_MOST: Final = states.MOST_TOTAL_BYTES
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
        self._states_left_out: list[str] = []
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
        self._add_problem(checkpoint.probe(self.path))

    def _load(self, path: Path) -> None:
        found = checkpoint.load(path, self._node_name)
        if isinstance(found, CheckpointProblem):
            self.problem = found
            # The reset may have been done long ago; it must not erase a checkpoint that is only unreadable now.
            self._is_reset_mark_known = found.is_first_start
            log.log(logging.INFO if found.is_first_start else logging.WARNING, "%s", found.message)
            return
        self._server.restore(found.models)
        self._restore_evaluation(path, found.evaluation)
        self._restore_calibration(path, found.calibration)
        self._restore_packages(path, found.packages)
        self._reset_mark = found.reset_mark
        self.written_seconds = found.saved_seconds
        saved = dt.datetime.fromtimestamp(found.saved_seconds, dt.UTC)
        log.info("%s: history of %d series, saved %s", path, len(found.models.keys), saved.isoformat())

    def _restore_evaluation(self, path: Path, stored: bytes) -> None:
        if stored == checkpoint_format.NO_EVALUATION:
            return
        try:
            state = evaluation_state.decode(stored)
        except ValueError as refused:
            log.warning("%s: the scores of the predictors are not used and begin again: %s", path, refused)
            return
        self._evaluation.restore(state, time.time(), _boot_seconds())

    def _restore_calibration(self, path: Path, stored: bytes) -> None:
        if not stored:
            return
        try:
            is_restored = self._server.restore_calibration(state_format.decode(stored))
        except ValueError as refused:
            log.warning("%s: the calibration is not used and begins again: %s", path, refused)
            return
        if not is_restored:
            log.warning("%s: the calibration is not used and begins again: it has impossible values", path)

    def _restore_packages(self, path: Path, stored: bytes) -> None:
        found, problems = states.decode(stored)
        for problem in problems:
            log.warning("%s: %s: not used, its predictor begins again", path, problem)
        self._server.packages.restore(found)

    def _package_states(self) -> bytes:
        encoded, left_out = states.encode(self._server.packages.states())
        if left_out != self._states_left_out:
            for name in left_out:
                log.warning("the state of predictor %s is not stored: all states have more than %d bytes", name, _MOST)
            self._states_left_out = left_out
        return encoded

    def _add_problem(self, unwritable: CheckpointProblem | None) -> None:
        """Add to the problem of loading, unless it has the same reason."""
        before = self.problem
        if unwritable is None or (before is not None and before.reason == unwritable.reason):
            return
        log.warning("%s", unwritable.message)
        loading = "" if before is None or before.is_first_start else f"{before.message}; "
        self.problem = CheckpointProblem(unwritable.reason, loading + unwritable.message)

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
        evaluation = self._evaluation.export(now, _boot_seconds())
        calibration = self._server.export_calibration()
        write = functools.partial(
            checkpoint.save,
            self.path,
            models,
            self._node_name,
            now,
            reset_mark=self._reset_mark,
            reset=is_reset,
            evaluation=evaluation,
            calibration=b"" if calibration is None else state_format.encode(calibration),
            packages=self._package_states(),
        )
        problem = await asyncio.to_thread(self._locked, write)
        self.writes += problem is None
        self.failures += problem is not None
        if problem is None:
            self.written_seconds = now
            self._is_reset_due &= not is_reset
        elif problem != self.problem:
            log.warning("%s", problem.message)
        self.problem = problem

    def _locked(self, write: Callable[[], CheckpointProblem | None]) -> CheckpointProblem | None:
        with self._write_lock:
            return write()

    @property
    def problem_text(self) -> str | None:
        """Why the history is not stored on disk, None when it is; a first start is no problem."""
        return None if self.problem is None or self.problem.is_first_start else self.problem.message


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)

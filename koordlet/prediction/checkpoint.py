"""The checkpoint file: written completely or not at all. No error of it stops the agent.

A write goes to a temporary file in the same folder, which is flushed to the disk and renamed over the old one; then the
folder is flushed too. Every error is returned as a problem with the path, and the agent continues in memory.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from koordlet.prediction import checkpoint_format
from koordlet.prediction.checkpoint_format import CheckpointError, Stored
from koordlet.prediction.usage_models import ModelsState

_MISSING: Final = "Missing"
_LESS_HISTORY: Final = "LessHistory"
_REASON_OF_ERRNO: Final = {
    errno.ENOSPC: ("DiskFull", "free space on that disk"),
    errno.EDQUOT: ("DiskFull", "raise the quota or free space"),
    errno.EROFS: ("ReadOnlyDisk", "mount the state folder read-write"),
    errno.EACCES: ("NoPermission", "give the folder to the agent's user, for example by chown in an init container"),
    errno.EPERM: ("NoPermission", "give the folder to the agent's user, for example by chown in an init container"),
    errno.ENOENT: ("NoFolder", "create the folder or mount it"),
    errno.ENOTDIR: ("NoFolder", "set state-dir to a folder"),
}
# Size of a checkpoint of 500 series.
_PROBED_BYTES: Final = 1 << 20
_MOST_BYTES: Final = 1 << 25
"""Four times the size of a checkpoint of the largest supported node, with every bucket in use."""
# Rounding of the sums on both sides of the comparison.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class CheckpointProblem:
    """Why a checkpoint was not read or not written: a short reason for a condition, and a one-line message."""

    reason: str
    message: str

    @property
    def is_first_start(self) -> bool:
        """Whether there is no checkpoint yet."""
        return self.reason == _MISSING


def load(path: Path, node_name: str) -> Stored | CheckpointProblem:
    """Return the models stored for this node."""
    try:
        return checkpoint_format.decode(_read(path), node_name)
    except FileNotFoundError as error:
        if not path.parent.is_dir():
            return problem_of(error, f"cannot read {path}")
        return CheckpointProblem(_MISSING, f"{path} does not exist: starting without history")
    except OSError as error:
        return problem_of(error, f"cannot read {path}")
    except CheckpointError as refused:
        return CheckpointProblem(refused.refusal, f"{path} is not used: {refused}; starting without history")


def probe(path: Path) -> CheckpointProblem | None:
    """Test whether a checkpoint can be written, by writing as many bytes and removing them."""
    temporary = _temporary(path)
    try:
        _write(temporary, bytes(_PROBED_BYTES))
        temporary.unlink()
    except OSError as error:
        _remove(temporary)
        return problem_of(error, f"cannot write {path}")
    return None


def save(
    path: Path,
    models: ModelsState,
    node_name: str,
    now_seconds: float,
    *,
    reset_mark: str = "",
    reset: bool = False,
    evaluation: bytes = checkpoint_format.NO_EVALUATION,
    calibration: bytes = b"",
    packages: bytes = checkpoint_format.NO_PACKAGES,
) -> CheckpointProblem | None:
    """Replace the checkpoint.

    A checkpoint with more recorded history than these models is not overwritten unless `reset` is set: an agent that
    could not read its checkpoint at the start must not erase it a minute later. After about a half-life the new history
    outweighs the old one and is written. `reset_mark`, the last reset request that was handled, is stored with it,
    and `evaluation`, the state of the live evaluation as JSON, `calibration`, that of calibrated peaks, and `packages`,
    those of package predictors as JSON.
    """
    try:
        if not reset and _carries_less_than_stored(path, models, node_name, now_seconds):
            text = (
                f"{path} is not overwritten: it has more history than the models of this process; "
                "remove it to discard that history"
            )
            return CheckpointProblem(_LESS_HISTORY, text)
        encoded = checkpoint_format.encode(
            models, node_name, now_seconds, reset_mark, evaluation, calibration=calibration, packages=packages
        )
        _replace(path, encoded)
    except OSError as error:
        return problem_of(error, f"cannot write {path}")
    return None


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        text = f"more than {_MOST_BYTES} bytes, want what an agent writes"
        raise CheckpointError(checkpoint_format.Refusal.CORRUPT, text)
    return data


def _carries_less_than_stored(path: Path, models: ModelsState, node_name: str, now_seconds: float) -> bool:
    try:
        stored = checkpoint_format.decode(_read(path), node_name)
    except (FileNotFoundError, CheckpointError):
        return False  # nothing usable is lost
    passed_seconds = max(now_seconds - stored.saved_seconds, 0.0)
    for resource, weight in checkpoint_format.carried_weight(models, now_seconds).items():
        # The shorter of two half-lives: a changed policy may have made these models decay faster.
        half_life = min(stored.models.banks[resource].half_life_seconds, models.banks[resource].half_life_seconds)
        left = stored.carried_weight[resource] * 2.0 ** -(passed_seconds / half_life)
        if weight < left * (1 - _ROUNDING):
            return True
    return False


def _replace(path: Path, data: bytes) -> None:
    temporary = _temporary(path)
    try:
        _write(temporary, data)
        temporary.replace(path)
    except OSError:
        _remove(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.tmp")


def _write(temporary: Path, data: bytes) -> None:
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _remove(temporary: Path) -> None:
    try:
        temporary.unlink(missing_ok=True)
    except OSError:
        return  # the next write overwrites it


def problem_of(error: OSError, what: str) -> CheckpointProblem:
    """Convert an error of the disk to a problem. `what` begins the message and has the path."""
    reason, fix = _REASON_OF_ERRNO.get(error.errno or 0, ("InputOutputError", "check the disk"))
    return CheckpointProblem(reason, f"{what}: {error.strerror or error}; history is kept in memory only: {fix}")

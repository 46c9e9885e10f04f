"""The checkpoint: everything that an agent learnt, as one file that is written completely or not at all.

    magic (8) | version (u32) | CRC32 of what follows (u32) | `Checkpoint` as MessagePack, arrays as their bytes

Bytes of another version, of another node, damaged, or with models that no agent can have stored are refused: the agent
starts without history. A value that is not a number, negative or absurdly large would otherwise spoil every later
prediction, or stop the agent at each start until the file is removed. Numbers are stored to the last bit: rounding
could move a percentile to the next bucket, 5 % away. No error of the file stops the agent; each becomes a problem with
the path.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import struct
import typing
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from koordlet.prediction.allocation import PodSize
from koordlet.prediction.calibration.node_calibration import NodeCalibrationState
from koordlet.prediction.evaluation import EvaluationState
from koordlet.prediction.histogram_bank import MAX_HALF_LIVES_FROM_REFERENCE, BankState, FloatArray
from koordlet.prediction.packages.guard import MOST_STATE_BYTES
from koordlet.prediction.usage_models import BUCKETS, ModelsState
from koordlet.prediction.week import Week
from koordlet.samples import RESOURCES, Name, Resource

log = logging.getLogger(__name__)

MAGIC: Final = b"koordprd"
VERSION: Final = 4
_BUCKETS: Final = " and ".join(scheme.identity for scheme in BUCKETS.values())
_PREFIX: Final = struct.Struct("<8sII")
_MISSING: Final = "Missing"
_OWNER: Final = "give the folder to the agent's user, for example by chown in an init container"
_REASON_OF_ERRNO: Final = {
    errno.ENOSPC: ("DiskFull", "free space on that disk"),
    errno.EDQUOT: ("DiskFull", "raise the quota or free space"),
    errno.EROFS: ("ReadOnlyDisk", "mount the state folder read-write"),
    errno.EACCES: ("NoPermission", _OWNER),
    errno.EPERM: ("NoPermission", _OWNER),
    errno.ENOENT: ("NoFolder", "create the folder or mount it"),
    errno.ENOTDIR: ("NoFolder", "set state-dir to a folder"),
}
_PROBED_BYTES: Final = 1 << 20  # size of a checkpoint of 500 series
_MOST_BYTES: Final = 1 << 25
"""Four times the size of a checkpoint of the largest supported node, with every bucket in use."""
# A clock that was never set starts in 1970, and a shift may move a first sample before that.
_TIMES: Final = (-1e10, 2.5e11)  # the years 1653 to 9892
_LONGEST_HISTORY_SECONDS: Final = 3.2e9
"""A century. All times are shifted together to the present, which must not move any of them out of range."""
_HALF_LIVES: Final = (1.0, 1e13)
_MOST_WEIGHT: Final = 2.0**100  # 2^60 for the newest sample, and as many samples as fit
_MOST_TIMES_THE_LARGEST_BUCKET: Final = 1000.0
_CLOCK_SECONDS: Final = 60.0
_UNDERFLOW: Final = 2.0**-900
"""The weight of a row that is silent for very long may have become 0 before its M2."""
_ROUNDING: Final = 1e-6  # of the sums on both sides of the comparison


class Checkpoint(msgspec.Struct):
    """Content of the file."""

    node: str
    saved_seconds: Annotated[float, msgspec.Meta(ge=_TIMES[0], le=_TIMES[1])]
    models: ModelsState
    reset_mark: str = ""
    """Text of the last reset request that was handled, '' if there was none."""
    evaluation: EvaluationState | None = None
    calibration: NodeCalibrationState | None = None
    packages: dict[Name, Annotated[bytes, msgspec.Meta(max_length=MOST_STATE_BYTES)]] = {}
    """States of package predictors."""
    sizes: Annotated[dict[Name, PodSize], msgspec.Meta(max_length=4096)] = {}
    """Sizes of the pods, by UID."""
    week: Week | None = None
    buckets: str = _BUCKETS


_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(Checkpoint)}
_PARTS: Final = ("evaluation", "calibration", "packages", "sizes", "week")
"""Parts that begin again where they cannot be used: the history of the models is worth more than each of them."""


class Refused(Exception):
    """The bytes are not used; the text has what was seen and what is wanted."""


@dataclass(frozen=True, slots=True)
class CheckpointProblem:
    """Why a checkpoint was not read or not written: a short reason, and a one-line message for a condition."""

    reason: str
    message: str

    @property
    def is_first_start(self) -> bool:
        """Whether there is no checkpoint yet."""
        return self.reason == _MISSING


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of a checkpoint."""
    document = msgspec.msgpack.encode(checkpoint, enc_hook=lambda array: [*array.shape, array.tobytes()])
    return _PREFIX.pack(MAGIC, VERSION, zlib.crc32(document)) + document


def decode(data: bytes, node_name: str) -> Checkpoint:
    """Return the checkpoint of this node. Raises Refused."""
    if len(data) < _PREFIX.size or not data.startswith(MAGIC):
        raise Refused(f"{len(data)} bytes that begin with {data[:8]!r}, want {_PREFIX.size} or more from {MAGIC!r} on")
    _magic, version, checksum = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise Refused(f"version {version}, this agent reads version {VERSION}")
    document = memoryview(data)[_PREFIX.size :]
    if zlib.crc32(document) != checksum:
        raise Refused(f"checksum of {len(data)} bytes is not {checksum:#010x}: the file is damaged or cut off")
    try:
        checkpoint = Checkpoint(**_values(document))
        if checkpoint.node != node_name:
            raise Refused(f"belongs to node {checkpoint.node!r}, this is {node_name!r}")
        if checkpoint.buckets != _BUCKETS:
            raise Refused(f"has the buckets {checkpoint.buckets}, want {_BUCKETS}")
        _require_models(checkpoint.models, checkpoint.saved_seconds)
    except (msgspec.DecodeError, ValueError, KeyError, RecursionError) as error:
        raise Refused(f"the content is invalid: {error!r}") from error
    return checkpoint


def _values(document: memoryview) -> dict[str, Any]:
    """Return the fields of a document, without the parts that are missing or cannot be used."""
    stored, values = msgspec.msgpack.decode(document, type=dict[str, msgspec.Raw]), {}
    for name, kind in _TYPES.items():
        if name in _PARTS and name not in stored:
            continue
        try:
            values[name] = msgspec.msgpack.decode(stored[name], type=kind, dec_hook=_list_as_array)
        except (msgspec.DecodeError, ValueError) as problem:
            if name not in _PARTS:
                raise
            log.warning("the %s of the checkpoint is not used and begins again: %s", name, problem)
    return values


def _list_as_array(kind: Any, stored: Any) -> npt.NDArray[Any]:
    """Return a writable array of the type in an annotation. Raises ValueError for a shape that does not fit."""
    *shape, data = stored
    scalar = typing.get_args(typing.get_args(kind)[1])[0]
    return np.frombuffer(data, np.dtype(scalar)).reshape(shape).copy()


def load(path: Path, node_name: str) -> Checkpoint | CheckpointProblem:
    """Return the checkpoint that is stored for this node."""
    try:
        return decode(_read(path), node_name)
    except FileNotFoundError as error:
        if not path.parent.is_dir():
            return problem_of_disk(error, f"cannot read {path}")
        return CheckpointProblem(_MISSING, f"{path} does not exist: starting without history")
    except OSError as error:
        return problem_of_disk(error, f"cannot read {path}")
    except Refused as refused:
        return CheckpointProblem("Refused", f"{path} is not used: {refused}; starting without history")


def probe(path: Path) -> CheckpointProblem | None:
    """Test whether a checkpoint can be written, by writing as many bytes and removing them."""
    try:
        _write_beside(path, bytes(_PROBED_BYTES)).unlink()
    except OSError as error:
        return problem_of_disk(error, f"cannot write {path}")
    return None


def save(path: Path, checkpoint: Checkpoint, *, is_reset: bool = False) -> CheckpointProblem | None:
    """Replace the checkpoint: write a file beside it, flush it to the disk, rename it, and flush the folder.

    One with more recorded history than these models is not replaced, but for a reset: an agent that could not read its
    checkpoint at the start must not erase it a minute later. After about a half-life the new history outweighs the old.
    """
    try:
        if not is_reset and _has_less_history(checkpoint, path):
            text = "it has more history than the models of this process; remove it to discard that history"
            return CheckpointProblem("LessHistory", f"{path} is not overwritten: {text}")
        _write_beside(path, encode(checkpoint)).replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        return problem_of_disk(error, f"cannot write {path}")
    return None


def _has_less_history(checkpoint: Checkpoint, path: Path) -> bool:
    try:
        stored = decode(_read(path), checkpoint.node)
    except (FileNotFoundError, Refused):
        return False  # nothing usable is lost
    passed_seconds = max(checkpoint.saved_seconds - stored.saved_seconds, 0.0)
    before = stored.models.history(stored.saved_seconds)
    for resource, weight in checkpoint.models.history(checkpoint.saved_seconds).items():
        # The shorter of two half-lives: a changed policy may have made these models decay faster.
        half_life = min(document.models.banks[resource].half_life_seconds for document in (stored, checkpoint))
        if weight < before[resource] * 2.0 ** -(passed_seconds / half_life) * (1 - _ROUNDING):
            return True
    return False


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise Refused(f"more than {_MOST_BYTES} bytes, want what an agent writes")
    return data


def _write_beside(path: Path, data: bytes) -> Path:
    """Write a file that can replace another one. After an error there is none."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):  # the next write overwrites it
            temporary.unlink(missing_ok=True)
        raise
    return temporary


def problem_of_disk(error: OSError, attempt: str) -> CheckpointProblem:
    """Convert an error of the disk to a problem. `attempt` begins the message and has the path."""
    reason, fix = _REASON_OF_ERRNO.get(error.errno or 0, ("InputOutputError", "check the disk"))
    return CheckpointProblem(reason, f"{attempt}: {error.strerror or error}; history is kept in memory only: {fix}")


def _require_models(models: ModelsState, saved_seconds: float) -> None:
    if len(set(models.keys)) < len(models.keys):
        raise ValueError(f"{len(models.keys)} rows, want one of each series")
    for resource in RESOURCES:
        _require_bank(resource, models.banks[resource], len(models.keys), saved_seconds)
    times = np.stack([models.banks[resource].columns[3:5] for resource in RESOURCES])
    if np.isnan(times[:, 1]).all(axis=0).any():
        raise ValueError("rows without a sample")
    age_seconds = np.nanmax(times, initial=-np.inf) - times[np.isfinite(times)]
    _require("ages of samples", age_seconds, 0.0, _LONGEST_HISTORY_SECONDS)


def _require_bank(resource: Resource, bank: BankState, rows: int, saved_seconds: float) -> None:
    starts = BUCKETS[resource].starts
    if bank.columns.shape != (7, rows) or bank.cells.shape != bank.cell_weights.shape or bank.cells.ndim != 1:
        raise ValueError(f"{resource}: arrays of {bank.columns.shape}, {bank.cells.shape}, {bank.cell_weights.shape}")
    weight, mean, m2, first, last, recorded, newest = bank.columns
    is_empty = np.isnan(last)
    if np.any(np.isnan([first, newest]) != is_empty) or np.any(weight[is_empty] != 0):
        raise ValueError(f"{resource} rows have a weight or a value without times of samples")
    # Numbers are checked after they are used: a damaged file may have any.
    with np.errstate(over="ignore", invalid="ignore"):
        largest = _MOST_TIMES_THE_LARGEST_BUCKET * float(starts[-1])
        longest = np.where(is_empty, 0.0, last - first)
        for what, numbers, least, most in (
            ("cells", bank.cells, 0, rows * len(starts) - 1),
            ("steps between cells", np.diff(bank.cells), 1, np.inf),
            ("cell weights", bank.cell_weights, 0.0, _MOST_WEIGHT),
            ("weights", weight, 0.0, _MOST_WEIGHT),
            ("means", mean, 0.0, largest),
            ("M2", m2, 0.0, (weight + _UNDERFLOW) * largest**2),
            ("newest values", newest[~is_empty], 0.0, largest),
            ("times", np.stack([first, last])[:, ~is_empty], *_TIMES),
            ("times from the first to the last sample", longest, 0.0, np.inf),
            ("recorded seconds", recorded, 0.0, longest + _CLOCK_SECONDS),
        ):
            _require(f"{resource} {what}", numbers, least, most)
    _require_decay(resource, bank, saved_seconds)


def _require_decay(resource: Resource, bank: BankState, saved_seconds: float) -> None:
    """Require a reference between the newest sample and 61 half-lives before it, or shortly after that sample.

    New samples would weigh nothing beside the stored ones if the reference were far in the future.
    """
    if np.isinf(bank.half_life_seconds) and np.isnan(bank.reference_seconds):
        return  # never trained
    _require(f"{resource} half-life", bank.half_life_seconds, *_HALF_LIVES)
    newest = float(np.fmax.reduce(bank.columns[4], initial=np.nan))
    if np.isnan(bank.reference_seconds) and np.isnan(newest):
        return
    latest = float(np.fmax(newest, saved_seconds))
    oldest = float(np.fmin(newest, saved_seconds)) - (MAX_HALF_LIVES_FROM_REFERENCE + 1) * bank.half_life_seconds
    _require(f"{resource} reference", bank.reference_seconds, oldest, latest + _CLOCK_SECONDS)


def _require(what: str, numbers: npt.ArrayLike, least: float, most: float | FloatArray) -> None:
    values = np.asarray(numbers, float)
    is_valid = np.isfinite(values) & (values >= least) & (values <= most)
    if not is_valid.all():
        example = np.atleast_1d(values)[~np.atleast_1d(is_valid)][0]
        raise ValueError(f"{what}: seen {example}, want finite numbers from {least:g} to {np.max(most):g}")

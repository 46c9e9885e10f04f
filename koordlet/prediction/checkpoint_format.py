"""Encoding of models as the bytes of a checkpoint, and decoding.

    magic (8) | version (u32) | header length (u32) | body length (u64) | CRC32 of header and body (u32)
    header: JSON - node, saved at, last handled reset request, state of the live evaluation, states of the predictors
            in packages, one [kind, identity] a row, and for each resource: buckets, half-life, reference, and the
            weight carried by the series that never expire
    body:   for each resource, little-endian: cells in use (u32), their weights (f64), seven columns of all rows (f64);
            the calibration (`calibration.state_format`)

Weights are stored to the last bit: rounding could move a percentile to the next bucket, 5 % away. Bytes that this
decoder does not accept are refused with a reason, never guessed. `checkpoint_values` checks what is decoded, because a
checksum only shows that the bytes are those that were written.
"""

from __future__ import annotations

import enum
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from koordlet.prediction import checkpoint_values
from koordlet.prediction.buckets import FloatArray
from koordlet.prediction.histogram_bank import BankState
from koordlet.prediction.usage_models import BUCKETS, ModelsState
from koordlet.samples import RESOURCES, Resource, SeriesKey, SeriesKind

MAGIC: Final = b"koordprd"
VERSION: Final = 3
_READABLE: Final = (2, 3)
"""Version 2 has no calibration."""
NO_EVALUATION: Final = b"null"
NO_PACKAGES: Final = b"{}"
_PREFIX: Final = struct.Struct("<8sIIQI")
_COLUMNS: Final = 7
_CELL: Final = np.dtype("<u4")
_FLOAT: Final = np.dtype("<f8")


class Refusal(enum.StrEnum):
    """Why stored bytes cannot be used as models of this node."""

    NOT_A_CHECKPOINT = "NotACheckpoint"
    OTHER_VERSION = "OtherVersion"
    TRUNCATED = "Truncated"
    CORRUPT = "Corrupt"
    FOREIGN_NODE = "ForeignNode"
    OTHER_BUCKETS = "OtherBuckets"


class CheckpointError(Exception):
    """The bytes cannot be used. `refusal` is the kind; the text has the value seen and the value wanted."""

    def __init__(self, refusal: Refusal, detail: str) -> None:
        super().__init__(detail)
        self.refusal = refusal


class _BankHeader(msgspec.Struct, rename="camel"):
    buckets: str
    half_life_seconds: float | None
    reference_seconds: float | None
    carried_weight: float
    cells: int


class _Header(msgspec.Struct, rename="camel"):
    node: str
    saved_at: float
    rows: list[tuple[str, str]]
    banks: dict[str, _BankHeader]
    reset_mark: str = ""
    evaluation: msgspec.Raw = msgspec.Raw(NO_EVALUATION)
    calibration_bytes: int = 0
    packages: msgspec.Raw = msgspec.Raw(NO_PACKAGES)


@dataclass(frozen=True, eq=False)
class Stored:
    """Content of a checkpoint."""

    saved_seconds: float
    models: ModelsState
    carried_weight: Mapping[Resource, float]
    """Weight at `saved_seconds` of the samples of all series that never expire."""
    reset_mark: str
    """Text of the last reset request that was handled, '' if there was none."""
    evaluation: bytes = NO_EVALUATION
    """State of the live evaluation as JSON, not validated: invalid scores must not cost the models."""
    calibration: bytes = b""
    """The calibration, empty without one, not validated for the same reason."""
    packages: bytes = NO_PACKAGES
    """States of package predictors as JSON (`packages.states`), not validated for the same reason."""


def encode(
    models: ModelsState,
    node_name: str,
    saved_seconds: float,
    reset_mark: str = "",
    evaluation: bytes = NO_EVALUATION,
    *,
    calibration: bytes = b"",
    packages: bytes = NO_PACKAGES,
) -> bytes:
    """Return the bytes of a checkpoint."""
    weight = carried_weight(models, saved_seconds)
    header = _Header(
        node=node_name,
        saved_at=saved_seconds,
        reset_mark=reset_mark,
        evaluation=msgspec.Raw(evaluation),
        calibration_bytes=len(calibration),
        packages=msgspec.Raw(packages),
        rows=[(kind.value, identity) for kind, identity in models.keys],
        banks={
            resource.value: _BankHeader(
                buckets=BUCKETS[resource].identity,
                half_life_seconds=_or_none(bank.half_life_seconds),
                reference_seconds=_or_none(bank.reference_seconds),
                carried_weight=weight[resource],
                cells=len(bank.cells),
            )
            for resource, bank in models.banks.items()
        },
    )
    encoded_header = msgspec.json.encode(header)
    parts = [encoded_header]
    for resource in RESOURCES:
        bank = models.banks[resource]
        parts += [bank.cells.astype(_CELL).tobytes(), *(_floats(array) for array in (bank.cell_weights, bank.columns))]
    content = b"".join([*parts, calibration])
    body_length = len(content) - len(encoded_header)
    return _PREFIX.pack(MAGIC, VERSION, len(encoded_header), body_length, zlib.crc32(content)) + content


def decode(data: bytes, node_name: str) -> Stored:
    """Return the content of a checkpoint of this node. Raises CheckpointError."""
    content, header_length = _verified_content(data)
    try:
        header = msgspec.json.decode(content[:header_length], type=_Header)
        _require_same_node(header.node, node_name)
        keys = tuple(SeriesKey(SeriesKind(kind), identity) for kind, identity in header.rows)
        body, calibration = _split(content[header_length:], header.calibration_bytes)
        models = ModelsState(keys, _banks(header.banks, body, len(keys)))
        weight = {resource: header.banks[resource].carried_weight for resource in RESOURCES}
        checkpoint_values.require_valid(models, header.saved_at, weight)
        rest = bytes(header.evaluation), calibration, bytes(header.packages)
        return Stored(header.saved_at, models, weight, header.reset_mark, *rest)
    except (msgspec.DecodeError, ValueError, KeyError, RecursionError) as error:
        raise CheckpointError(Refusal.CORRUPT, f"the content is invalid: {error!r}") from error


def carried_weight(models: ModelsState, at_seconds: float) -> dict[Resource, float]:
    """Return the weight of all samples of the series that never expire, decayed to a time: the amount of history.

    While the clock is behind the newest sample, because it was set back, that time is the time of the newest sample.
    """
    lasting = np.array([key.kind is not SeriesKind.POD for key in models.keys], bool)
    carried = {}
    for resource, bank in models.banks.items():
        newest_seconds = np.fmax.reduce(bank.columns[4], initial=at_seconds)
        half_lives = float(newest_seconds - bank.reference_seconds) / bank.half_life_seconds
        stored = float(np.sum(bank.columns[0, lasting]))
        carried[resource] = stored * 2.0**-half_lives if stored else 0.0
    return carried


def _or_none(number: float) -> float | None:
    """Return None for the infinite half-life and the missing reference of a bank that was never trained."""
    return number if math.isfinite(number) else None


def _floats(array: FloatArray) -> bytes:
    return array.astype(_FLOAT, copy=False).tobytes()


def _verified_content(data: bytes) -> tuple[memoryview, int]:
    if not data.startswith(MAGIC[: len(data)]):
        raise CheckpointError(Refusal.NOT_A_CHECKPOINT, f"begins with {data[:8]!r}, want {MAGIC!r}")
    if len(data) < _PREFIX.size:
        raise CheckpointError(Refusal.TRUNCATED, f"{len(data)} bytes, want {_PREFIX.size} and more")
    _, version, header_length, body_length, checksum = _PREFIX.unpack_from(data)
    if version not in _READABLE:
        raise CheckpointError(Refusal.OTHER_VERSION, f"version {version}, this agent reads versions 2 and 3")
    wanted = _PREFIX.size + header_length + body_length
    if len(data) < wanted:
        raise CheckpointError(Refusal.TRUNCATED, f"{len(data)} bytes, want {wanted}")
    content = memoryview(data)[_PREFIX.size :]
    if zlib.crc32(content) != checksum:
        raise CheckpointError(Refusal.CORRUPT, f"checksum of {len(data)} bytes is not {checksum:#010x}")
    return content, header_length


def _require_same_node(stored: str, wanted: str) -> None:
    if stored != wanted:
        raise CheckpointError(Refusal.FOREIGN_NODE, f"belongs to node {stored!r}, this is {wanted!r}")


def _split(body: memoryview, calibration_bytes: int) -> tuple[memoryview, bytes]:
    """Return the banks and the calibration behind them."""
    if not 0 <= calibration_bytes <= len(body):
        raise ValueError(f"a calibration of {calibration_bytes} bytes in a body of {len(body)}")
    end = len(body) - calibration_bytes
    return body[:end], bytes(body[end:])


def _banks(headers: Mapping[str, _BankHeader], body: memoryview, rows: int) -> dict[Resource, BankState]:
    banks = {}
    offset = 0

    def take(count: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        nonlocal offset
        if not 0 <= count * kind.itemsize <= len(body) - offset:  # a negative count would mean "all"
            raise ValueError(f"{count} values of {kind.itemsize} bytes in the last {len(body) - offset} bytes")
        taken = np.frombuffer(body, kind, count, offset) if count else np.empty(0, kind)
        offset += taken.nbytes
        return taken

    for resource in RESOURCES:
        header, buckets = headers[resource], BUCKETS[resource]
        if header.buckets != buckets.identity:
            raise CheckpointError(Refusal.OTHER_BUCKETS, f"{resource} has {header.buckets}, want {buckets.identity}")
        banks[resource] = BankState(
            half_life_seconds=math.inf if header.half_life_seconds is None else header.half_life_seconds,
            reference_seconds=math.nan if header.reference_seconds is None else header.reference_seconds,
            cells=take(header.cells, _CELL).astype(np.intp),
            cell_weights=take(header.cells, _FLOAT),
            columns=take(_COLUMNS * rows, _FLOAT).reshape(_COLUMNS, rows),
        )
    if offset != len(body):
        raise ValueError(f"{len(body) - offset} bytes too many")
    return banks

"""Encoding of a node's calibration as bytes for the checkpoint, and decoding.

MessagePack; arrays are little-endian bytes of the types below. `ResourceCalibration.restore` checks the values.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from koordlet.prediction.calibration.day_ring import SLOTS, RingState
from koordlet.prediction.calibration.node_calibration import NodeCalibrationState
from koordlet.prediction.calibration.resource_calibration import RISE_DAYS, CalibrationState, Watched
from koordlet.prediction.calibration.scores import ScoreState
from koordlet.samples import RESOURCES, SeriesKey, SeriesKind

_HALF: Final = np.dtype("<f2")
_FLOAT: Final = np.dtype("<f8")
_FLAG: Final = np.dtype("?")


class _Ring(msgspec.Struct, array_like=True):
    values: bytes
    head: int
    slot_seconds: float


class _Scores(msgspec.Struct, array_like=True):
    weights: bytes
    labels: int
    newest_seconds: float
    horizon_seconds: float


class _Calibration(msgspec.Struct, array_like=True):
    unit: float
    seconds: float | None
    day_seconds: float
    ring: _Ring
    rises: bytes
    now: bytes
    here: bytes
    mask: bytes
    begin: bytes
    most: bytes
    watched: tuple[float, float, float, float] | None
    largest: float
    scores: _Scores
    is_capped: bool = False
    """The last field: checkpoints of agents that did not have it can be read, and those agents can read this."""


class _Node(msgspec.Struct, array_like=True):
    keys: list[tuple[str, str]]
    resources: dict[str, _Calibration]


def encode(state: NodeCalibrationState) -> bytes:
    """Return the bytes of a calibration."""
    resources = {resource.value: _encoded(each, state.units[resource]) for resource, each in state.resources.items()}
    return msgspec.msgpack.encode(_Node([(kind.value, identity) for kind, identity in state.keys], resources))


def decode(data: bytes) -> NodeCalibrationState:
    """Return the content of these bytes. Raises ValueError for bytes that no agent can have stored."""
    try:
        node = msgspec.msgpack.decode(data, type=_Node)
        keys = tuple(SeriesKey(SeriesKind(kind), identity) for kind, identity in node.keys)
        stored = {resource: node.resources[resource.value] for resource in RESOURCES}
    except (msgspec.DecodeError, KeyError, RecursionError) as error:
        raise ValueError(f"calibration: {error!r}") from error
    units = {resource: each.unit for resource, each in stored.items()}
    if len(set(keys)) != len(keys) or not all(math.isfinite(unit) and unit > 0 for unit in units.values()):
        raise ValueError(f"calibration: {len(keys)} series, {len(set(keys))} of them different, of units {units}")
    return NodeCalibrationState(keys, units, {name: _decoded(each, len(keys)) for name, each in stored.items()})


def _encoded(state: CalibrationState, unit: float) -> _Calibration:
    ring, scores, watched = state.ring, state.scores, state.watched
    return _Calibration(
        unit=unit,
        seconds=state.seconds,
        day_seconds=state.day_seconds,
        ring=_Ring(_bytes(ring.values, _HALF), ring.head, ring.slot_seconds),
        rises=_bytes(state.rises, _HALF),
        now=_bytes(state.now, _FLOAT),
        here=_bytes(state.here, _FLAG),
        mask=_bytes(state.mask, _FLAG),
        begin=_bytes(state.begin, _FLOAT),
        most=_bytes(state.most, _FLOAT),
        watched=None if watched is None else dataclasses.astuple(watched),
        largest=state.largest,
        scores=_Scores(_bytes(scores.weights, _FLOAT), scores.labels, scores.newest_seconds, scores.horizon_seconds),
        is_capped=state.is_capped,
    )


def _decoded(stored: _Calibration, count: int) -> CalibrationState:
    ring, scores = stored.ring, stored.scores
    return CalibrationState(
        seconds=stored.seconds,
        day_seconds=stored.day_seconds,
        ring=RingState(_array(ring.values, _HALF, count, SLOTS), ring.head, ring.slot_seconds),
        rises=_array(stored.rises, _HALF, count, RISE_DAYS),
        now=_array(stored.now, _FLOAT, count),
        here=_array(stored.here, _FLAG, count),
        mask=_array(stored.mask, _FLAG, count),
        begin=_array(stored.begin, _FLOAT, count),
        most=_array(stored.most, _FLOAT, count),
        watched=stored.watched and Watched(*stored.watched),
        largest=stored.largest,
        scores=ScoreState(
            np.frombuffer(scores.weights, _FLOAT), scores.labels, scores.newest_seconds, scores.horizon_seconds
        ),
        is_capped=stored.is_capped,
    )


def _bytes(array: npt.NDArray[Any], kind: np.dtype[Any]) -> bytes:
    return array.astype(kind, copy=False).tobytes()


def _array(stored: bytes, kind: np.dtype[Any], *shape: int) -> npt.NDArray[Any]:
    """Return stored values in a shape. Raises ValueError for more or fewer of them."""
    return np.frombuffer(stored, kind).reshape(shape)

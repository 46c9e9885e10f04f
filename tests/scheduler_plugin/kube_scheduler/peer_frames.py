"""Frames as the plugin inside kube-scheduler writes and reads them."""

from __future__ import annotations

import struct

import numpy as np

from scheduler_plugin.kube_scheduler import frames
from scheduler_plugin.kube_scheduler.frames import CODES, MAGIC, SCORES, VERSION, Answer, Kind, Reader


def hello(profile: str, minor: str, version: int = VERSION) -> bytes:
    """Return the first frame of a connection."""
    return frames.frame(Kind.HELLO, struct.pack("<IH", MAGIC, version) + frames.texts((profile, minor)))


def read_answer(payload: bytes) -> Answer:
    """Read an answer."""
    head = struct.Struct("<IIiBB")
    generation, rows, resolvable_row, unknown_code, flags = head.unpack_from(payload)
    at, arrays = head.size, []
    for flag in (CODES, SCORES):
        end = at + rows * bool(flags & flag)
        arrays.append(np.frombuffer(payload[at:end], dtype=np.uint8) if flags & flag else None)
        at = end
    reader, details = Reader(payload[at:]), {}
    while not reader.is_at_end():
        code = reader.u8()
        details[code] = reader.text()
    return Answer(generation, rows, arrays[0], arrays[1], unknown_code, resolvable_row, details)

"""Frames are read as they were written, in any pieces; what is no frame is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.kube_scheduler import frames
from scheduler_plugin.kube_scheduler.frames import Answer, BadFrame, Frame, FrameBuffer, Kind, Reader
from tests.scheduler_plugin.kube_scheduler import peer_frames

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_ROWS = st.integers(0, 300).flatmap(
    lambda rows: st.tuples(
        st.just(rows),
        st.none() | st.binary(min_size=rows, max_size=rows),
        st.none() | st.binary(min_size=rows, max_size=rows),
    )
)


@given(
    st.lists(st.tuples(st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.binary(max_size=200)), max_size=6),
    st.integers(1, 50),
)
def test_frames_arrive_whole_in_pieces_of_any_size(sent: list[tuple[Kind, int, bytes]], size: int) -> None:
    stream = b"".join(frames.frame(kind, payload, number) for kind, number, payload in sent)
    buffer, received = FrameBuffer(), []
    for at in range(0, len(stream), size):
        received += buffer.take(stream[at : at + size])
    assert received == [Frame(kind, number, payload) for kind, number, payload in sent]


@given(
    _ROWS,
    st.integers(0, 2**32 - 1),
    st.integers(-1, 9),
    st.integers(0, 255),
    st.dictionaries(st.integers(1, 9), _TEXTS),
)
def test_an_answer_is_read_as_it_was_written(
    rows: tuple[int, bytes | None, bytes | None], generation: int, row: int, unknown: int, texts: dict[int, str]
) -> None:
    count, *arrays = rows
    codes, scores = (None if array is None else np.frombuffer(array, dtype=np.uint8) for array in arrays)
    answer = Answer(generation, count, codes, scores, unknown, row, texts)
    (received,) = FrameBuffer().take(frames.answer(answer, 7))
    assert received[:2] == (Kind.ANSWER, 7)
    read = peer_frames.read_answer(received.payload)
    for before, after in zip(answer, read, strict=True):
        if isinstance(before, np.ndarray) and count:
            np.testing.assert_array_equal(before, after)
        elif not isinstance(before, np.ndarray):
            assert before == after


@given(st.lists(st.tuples(st.integers(0, 2**16 - 1), _TEXTS), max_size=20), _TEXTS)
def test_fields_are_read_as_they_were_written(rows: list[tuple[int, str]], text: str) -> None:
    (received,) = FrameBuffer().take(frames.table(3, rows))
    reader = Reader(received.payload)
    assert reader.u32() == 3
    assert [(reader.u32(), reader.text()) for _ in rows] == rows
    reader.end()
    (received,) = FrameBuffer().take(peer_frames.hello(text, "36"))
    assert frames.read_hello(received.payload) == (text, "36")


@given(st.binary(min_size=1, max_size=60))
def test_a_payload_that_is_torn_or_too_long_is_refused(payload: bytes) -> None:
    (received,) = FrameBuffer().take(peer_frames.hello("koord-scheduler", "36"))
    for wrong in (received.payload[: -min(len(payload), 20)], received.payload + payload):
        with pytest.raises(BadFrame):
            frames.read_hello(wrong)


def test_another_version_is_refused_with_both_versions() -> None:
    (received,) = FrameBuffer().take(peer_frames.hello("koord-scheduler", "36", version=2))
    with pytest.raises(BadFrame, match="version 2 of the plugin, want 1"):
        frames.read_hello(received.payload)


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<IBBHI", frames.MOST_BYTES + 1, Kind.ASK, 0, 0, 0),
        struct.pack("<IBBHI", 0, 99, 0, 0, 0),
        struct.pack("<IBBHI", 0, Kind.ASK, 1, 0, 0),
        struct.pack("<IBBHI", 0, Kind.ASK, 0, 1, 0),
    ],
)
def test_a_header_that_is_not_known_is_refused(header: bytes) -> None:
    with pytest.raises(BadFrame):
        list(FrameBuffer().take(header))


def test_a_table_of_many_nodes_takes_several_frames() -> None:
    names = [(row, f"node-{row:05}-{'x' * 200}") for row in range(6000)]
    received = list(FrameBuffer().take(frames.table(9, names)))
    assert len(received) > 1
    assert max(len(frame.payload) for frame in received) < frames.MOST_BYTES
    read = []
    for frame in received:
        reader = Reader(frame.payload)
        assert reader.u32() == 9
        while not reader.is_at_end():
            read.append((reader.u32(), reader.text()))
    assert read == names

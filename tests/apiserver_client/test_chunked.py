"""The body of a chunked answer, however the network cuts it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_client import chunked


def encoded(chunks):
    """As RFC 9112, 7.1 has it."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def taken(body, pieces):
    return b"".join(body.taken_from(piece) for piece in pieces)


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(0, 400)))
def test_the_body_is_the_same_wherever_the_network_cuts_it(chunks, cuts):
    sent = encoded(chunks)
    edges = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    body = chunked.Body()
    assert taken(body, [sent[a:b] for a, b in itertools.pairwise(edges)]) == b"".join(chunks)
    assert body.ended


def test_byte_by_byte_is_a_cut_too():
    sent = encoded([b'{"a":1}\n', b"x" * 300])
    body = chunked.Body()
    assert taken(body, [sent[n : n + 1] for n in range(len(sent))]) == b'{"a":1}\n' + b"x" * 300
    assert body.ended


def test_what_has_come_of_a_chunk_is_not_held_back():
    body = chunked.Body()
    assert body.taken_from(b"a\r\n12345") == b"12345"
    assert not body.ended


@pytest.mark.parametrize("head", [b"3;name=value", b"003", b"3 ", b"3\t; x"])
def test_extensions_zeros_and_blanks_of_a_size_are_passed_over(head):
    assert chunked.Body().taken_from(head + b"\r\nabc\r\n") == b"abc"


def test_trailers_are_not_part_of_the_body():
    body = chunked.Body()
    assert body.taken_from(b"1\r\na\r\n0\r\nDigest: x\r\n\r\n") == b"a"
    assert body.ended


@pytest.mark.parametrize(
    "sent",
    [b"<html>\r\n", b"\r\n", b"-3\r\nabc", b"0x3\r\nabc", b"+3\r\nabc", b"1_0\r\nabc", b"3\r\nabcd\r\n", b"1" * 5000],
)
def test_what_is_no_chunk_is_refused(sent):
    with pytest.raises(chunked.Malformed):
        chunked.Body().taken_from(sent)

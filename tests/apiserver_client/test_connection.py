"""The body of a chunked answer, split anywhere."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_client import connection


def encoded(chunks):
    """Encode as in RFC 9112, 7.1."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def decoded(body, pieces):
    return b"".join(body.decode(piece) for piece in pieces)


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(0, 400)))
def test_the_body_does_not_depend_on_how_the_bytes_are_split(chunks, cuts):
    sent = encoded(chunks)
    edges = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    body = connection.Body()
    assert decoded(body, [sent[a:b] for a, b in itertools.pairwise(edges)]) == b"".join(chunks)
    assert body.ended


@pytest.mark.parametrize("head", [b"3;name=value", b"003", b"3 ", b"3\t; x"])
def test_ignores_extensions_zeros_and_blanks_of_a_size(head):
    assert connection.Body().decode(head + b"\r\nabc\r\n") == b"abc"


def test_trailers_are_not_part_of_the_body():
    body = connection.Body()
    assert body.decode(b"1\r\na\r\n0\r\nDigest: x\r\n\r\n") == b"a"
    assert body.ended


@pytest.mark.parametrize(
    "sent",
    [b"<html>\r\n", b"\r\n", b"-3\r\nabc", b"0x3\r\nabc", b"+3\r\nabc", b"1_0\r\nabc", b"3\r\nabcd\r\n", b"1" * 5000],
)
def test_rejects_bytes_that_are_not_a_chunk(sent):
    with pytest.raises(connection.MalformedChunk):
        connection.Body().decode(sent)

"""Lines of chunks, and objects of JSON, each decoded separately."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_client import decoding, errors

texts = st.lists(st.binary(min_size=1, max_size=30).filter(lambda it: b"\n" not in it and it.strip()), max_size=8)


def split(chunks):
    splitter = decoding.LineSplitter()
    return [line for chunk in chunks for line in splitter.lines(chunk)]


@given(lines=texts, cuts=st.lists(st.integers(min_value=0, max_value=300)))
def test_lines_do_not_depend_on_how_the_bytes_are_split(lines, cuts):
    stream = b"".join(line + b"\n" for line in lines)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert split(chunks) == lines


def test_drops_an_incomplete_last_line():
    assert split([b'{"a":1}\n{"b"', b":2"]) == [b'{"a":1}']


def test_ignores_empty_lines():
    assert split([b"\n\r\n", b"a\n\nb\n"]) == [b"a", b"b"]


def test_an_error_names_object_field_and_both_types():
    class Slim(msgspec.Struct):
        count: int

    key = decoding.Key("ns", "a")
    with pytest.raises(errors.DecodeError, match=r"Pod ns/a: .*Expected `int`, got `str` - at `\$.count`"):
        decoding.decode_object(msgspec.Raw(b'{"count": "x"}'), "Pod", key, Slim)


def test_a_key_is_a_plain_pair():
    assert decoding.Key("ns", "a") == ("ns", "a")


def test_an_object_without_namespace_has_an_empty_one():
    found = decoding.identify(msgspec.Raw(b'{"metadata": {"name": "n", "resourceVersion": "7"}, "spec": [1]}'), "Node")
    assert found.key == ("", "n")
    assert found.metadata.resource_version == "7"

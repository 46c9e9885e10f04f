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


def test_an_object_without_namespace_has_an_empty_one():
    found = decoding.identify(msgspec.Raw(b'{"metadata": {"name": "n", "resourceVersion": "7"}, "spec": [1]}'), "Node")
    assert found.key == ("", "n")
    assert found.metadata.resource_version == "7"


class Deep(msgspec.Struct):
    metadata: decoding.EnvelopeMetadata
    after: int = 0
    text: str = ""


def deep(levels, opening=b'{"f:a":', closing=b"}"):
    fields = opening * levels + b"1" + closing * levels
    return b'{"metadata": {"managedFields": [%s], "name": "n"}, "text": "[{\\"[\\\\", "after": 7}' % fields


@pytest.mark.parametrize("levels", [1, 300, 2_000, 9_990])
@pytest.mark.parametrize(("opening", "closing"), [(b'{"f:a":', b"}"), (b"[", b"]"), (b'["]{",', b"]")])
def test_levels_without_number_cost_an_object_nothing_else(levels, opening, closing):
    """The apiserver accepts 10,000 levels, and the interpreter's stack has fewer."""
    whole = deep(levels, opening, closing)
    found = decoding.decode_object(msgspec.Raw(whole), "Pod", decoding.Key("ns", "n"), Deep)
    assert (found.metadata.name, found.after, found.text) == ("n", 7, '[{"[\\')


def test_a_deep_object_does_not_affect_the_others_of_its_page():
    items = [deep(1), deep(9_000), deep(3)]
    page = decoding.decode(
        "pods", b'{"metadata": {"resourceVersion": "5"}, "items": [%s]}' % b",".join(items), decoding.ListPage
    )
    assert [decoding.identify(item, "Pod").key.name for item in page.items or ()] == ["n", "n", "n"]
    event = decoding.decode("pods", b'{"type": "ADDED", "object": %s}' % deep(9_000), decoding.WatchEvent)
    assert decoding.identify(event.object, "Pod").key.name == "n"


def test_a_deep_document_that_is_cut_off_is_an_error_of_decoding():
    with pytest.raises(errors.DecodeError):
        decoding.decode("pods", deep(9_000)[:-40_000], Deep)


_DEEP_FIELDS = b'{"f:a":' * 2_000 + b"{}" + b"}" * 2_000


def with_fields(fields, rest=b""):
    return b'{"metadata":{"managedFields":[{"manager":"m","fieldsV1":%s%s},{"fieldsV1":{"f:b":{}}}],"name":"n"}}' % (
        fields,
        rest,
    )


@pytest.mark.parametrize(
    "fields",
    [
        b'{"f:a":[%s]}' % _DEEP_FIELDS,
        b'[{"fieldsV1":%s},{}]' % _DEEP_FIELDS,
        b'{"a":[{"b":{"fieldsV1":%s}},{}]}' % _DEEP_FIELDS,
        b'{"a\\"fieldsV1":%s}' % _DEEP_FIELDS,
        b'{ "f:a": %s }' % _DEEP_FIELDS,
    ],
    ids=["list", "within fields", "within another object", "end of a text", "spaces"],
)
def test_deep_fields_that_the_apiserver_does_not_write_cost_an_object_nothing_else(fields):
    found = decoding.decode("pod", with_fields(fields), dict)
    assert found["metadata"]["name"] == "n"
    assert found["metadata"]["managedFields"][1] == {"fieldsV1": {"f:b": {}}}


def test_a_text_that_is_not_utf_8_is_an_error_of_decoding_in_plain_values_and_no_error_elsewhere():
    whole = with_fields(b'{"f:\xff":{}}')
    with pytest.raises(errors.DecodeError, match="pod: unexpected answer: 'utf-8' codec"):
        decoding.decode("pod", whole, dict)
    with pytest.raises(errors.DecodeError, match="Pod ns/n: unexpected content: 'utf-8' codec"):
        decoding.decode_object(msgspec.Raw(whole), "Pod", decoding.Key("ns", "n"), dict)
    with pytest.raises(errors.DecodeError, match="'utf-8' codec"):
        decoding.decode("pod", with_fields(b'{"f:\xff":%s}' % _DEEP_FIELDS).replace(b'"n"', b'"\xff"'), dict)
    assert decoding.identify(msgspec.Raw(whole), "Pod").key.name == "n"

"""Objects of a list, cut out of it wherever its bytes are split."""

import itertools
import json
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_client import decoding, errors, list_splitter
from tests.apiserver_client.test_decoding import deep

_TEXTS = st.text(alphabet='"\\[]{},:a ü\n', max_size=6)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=10,
)
_OBJECTS = st.dictionaries(_TEXTS, _JSON, max_size=3)
_METADATA = {"resourceVersion": "5", "continue": 't"],[{', "remainingItemCount": 7}


def split(document, cuts=()):
    """Return the objects and the rest of a list that arrives in pieces."""
    splitter = list_splitter.ListSplitter()
    edges = sorted({0, len(document), *(cut for cut in cuts if cut < len(document))})
    pieces = [document[start:end] for start, end in itertools.pairwise(edges)]
    return [bytes(item) for piece in (*pieces, b"") for item in splitter.items(piece)], splitter.rest()


def metadata(rest):
    page = decoding.decode("pods", rest, decoding.Page)
    assert not page.items
    return page.metadata.resource_version, page.metadata.continue_


@st.composite
def lists(draw):
    """Draw a list in some order of its fields, with some white space, and the pieces in which it arrives."""
    items = draw(st.lists(_OBJECTS, max_size=5))
    fields = {"kind": "PodList", "apiVersion": "v1", "metadata": _METADATA, "items": items, "more": draw(_JSON)}
    document = {name: fields[name] for name in draw(st.permutations(list(fields)))}
    text = json.dumps(document, indent=draw(st.sampled_from([None, 0, 3])), ensure_ascii=draw(st.booleans()))
    text = draw(st.sampled_from(["", " \r\n"])) + text + draw(st.sampled_from(["", "\t\n"]))
    cuts = draw(st.lists(st.integers(min_value=0, max_value=len(text)))) if draw(st.booleans()) else range(len(text))
    return items, text.encode(), cuts


@given(drawn=lists())
def test_objects_do_not_depend_on_the_form_of_the_list_and_how_it_is_split(drawn):
    items, document, cuts = drawn
    found, rest = split(document, cuts)
    page = decoding.decode("pods", rest, decoding.Page)
    found += [bytes(item) for item in page.items or ()]
    assert [json.loads(item) for item in found] == items
    assert (page.metadata.resource_version, page.metadata.continue_) == ("5", _METADATA["continue"])


@pytest.mark.parametrize(
    "document",
    [
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[%s]}\n',
        b'{"items": [%s], "metadata": {"resourceVersion": "5"}}',
        b' { "metadata" : {"resourceVersion":"5", "a": [1, "]"]} , "items" : [ %s ] } ',
    ],
)
def test_no_object_stays_in_the_rest(document):
    found, rest = split(document % b'{"a":[]} , {"b":"}"}')
    assert [json.loads(item) for item in found] == [{"a": []}, {"b": "}"}]
    assert metadata(rest) == ("5", "")


@pytest.mark.parametrize("items", [b',"items":null', b',"items":[]', b',"items": [ ]'])
def test_a_list_may_have_no_objects(items):
    found, rest = split(b'{"metadata":{"resourceVersion":"5"}%s}' % items)
    assert (found, metadata(rest)) == ([], ("5", ""))


@pytest.mark.parametrize("size", [1, 1000, 10**6])
def test_deep_objects_do_not_affect_the_others(size):
    items = [deep(1), deep(9_990, b"[", b"]"), deep(3), deep(9_000, b'["]{",', b"]"), b"{}"]
    document = b'{"items":[%s],"metadata":{"resourceVersion":"5"}}' % b" , ".join(items)
    found, rest = split(document, range(0, len(document), size) if size > 1 else (len(document) - 60,))
    assert [item.strip() for item in found] == items
    assert metadata(rest) == ("5", "")


@pytest.mark.parametrize("text", [b'"f:a":', b'"\\"}{":', b'"\\\\":'])
def test_a_deep_object_of_a_tenant_takes_a_few_steps_of_the_loop(text):
    fields = b'{"fieldsV1":%s}' % deep(9_000, b"{" + text)
    item = b'{"metadata":{"managedFields":[%s]}}' % b",".join([fields] * 8)
    document = b'{"items":[{},%s,{}],"metadata":{"resourceVersion":"5"}}' % item
    calls = []
    before = sys.getprofile()
    sys.setprofile(lambda _, event, called: calls.append(called) if event.endswith("call") else None)
    try:
        found, rest = split(document, range(0, len(document), 65_536))
    finally:
        sys.setprofile(before)
    assert [item.strip() for item in found] == [b"{}", item, b"{}"]
    assert metadata(rest) == ("5", "")
    assert len(calls) < 2_000


@given(drawn=lists())
def test_brackets_give_the_same_where_the_text_of_an_error_is_another_one(drawn):
    items, document, cuts = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_splitter, "_CUT_OFF", "")
        patch.setattr(list_splitter, "_FOLLOWED", list_splitter.re.compile("(?!)"))
        found, rest = split(document, cuts)
    page = decoding.decode("pods", rest, decoding.Page)
    assert [json.loads(bytes(item)) for item in (*found, *(page.items or ()))] == items


@pytest.mark.parametrize("parts", [10, 1_000])
def test_a_byte_of_a_large_object_is_scanned_a_few_times(monkeypatch, parts):
    scanned = []
    end = list_splitter._end

    def counted(data, at):
        scanned.append(len(data) - at)
        return end(data, at)

    monkeypatch.setattr(list_splitter, "_end", counted)
    document = b'{"items":[{},{"a":"%s"}],"metadata":{}}' % (b"x" * 1_000_000)
    found, _ = split(document, range(0, len(document), len(document) // parts))
    assert list(map(len, found)) == [2, 1_000_008]
    assert sum(scanned) < 4_000_000


def test_the_brackets_of_an_object_are_counted_without_a_step_of_the_interpreter_for_each():
    """Of 1.4 MB of brackets, which an author can write, each step took a third of a second of the loop together."""
    steps = []

    def trace(_frame, event, _argument):
        if event == "line":
            steps.append(event)
        return trace

    document = b'{"items":[{"a":%s,"b":{%s}}],"metadata":{}}' % (deep(5000), b",".join([b'"c":{"d":{"e":{}}}'] * 5000))
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found, _ = split(document)
    finally:
        sys.settrace(before)
    assert list(map(len, found)) == [len(document) - len(b'{"items":[],"metadata":{}}')]
    assert len(steps) < 10_000, "the compiler of regular expressions takes some"


WHOLE = b'{"metadata":{"resourceVersion":"5"},"items":[{"a":1},{"b":2}]}'


@pytest.mark.parametrize("length", range(1, len(WHOLE)))
def test_a_list_that_is_cut_off_is_an_error_of_decoding(length):
    _, rest = split(WHOLE[:length])
    with pytest.raises(errors.DecodeError):
        decoding.decode("pods", rest, decoding.Page)


@pytest.mark.parametrize("items", [b"{};{}", b'{"a" 1}', b"{},x", b'{"a":x},{}', b'{"a":[}},{}', b'"a"', b"[]"])
def test_a_malformed_list_or_object_is_an_error_of_decoding(items):
    def decoded():
        found, rest = split(b'{"metadata":{"resourceVersion":"5"},"items":[%s]}' % items)
        page = decoding.decode("pods", rest, decoding.Page)
        return [decoding.identify(item, "Pod") for item in (*map(msgspec.Raw, found), *(page.items or ()))]

    with pytest.raises(errors.DecodeError):
        decoded()

"""With which piece of a list an object is found."""

import json

from apiserver_client import list_splitter


def test_objects_are_found_with_the_piece_that_doubles_what_is_left():
    splitter = list_splitter.ListSplitter()
    assert list(splitter.items(b'{"items":[{"a":"xxxx')) == []
    left = len(b'{"a":"xxxx')
    rest = b'"},'
    assert list(splitter.items(rest)) == [], "it is shorter than what is left"
    more = b'{"b":2}'
    assert len(rest + more) == left
    found = list(splitter.items(more))
    assert [json.loads(bytes(each)) for each in found] == [{"a": "xxxx"}]

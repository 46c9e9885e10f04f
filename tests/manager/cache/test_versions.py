"""Versions of objects that are numbers, and those that are none."""

import pytest

from manager.cache.store import NodeStore, version_number
from tests.manager.cache.test_store import node


@pytest.mark.parametrize(("version", "number"), [("17", 17), ("1", 1), ("0", 0), ("", 0), ("x1", 0), ("-5", 0)])
def test_a_version_that_is_no_number_is_the_lowest(version, number):
    assert version_number(version) == number


def test_an_object_whose_version_is_no_number_replaces_none_with_a_version():
    nodes = NodeStore()
    assert nodes.update(nodes.decode(node("", a="first")))
    assert nodes.newest_version == 0
    assert nodes.update(nodes.decode(node("1", a="numbered")))
    assert not nodes.update(nodes.decode(node("", a="again")))
    assert nodes.get("n1").metadata.labels == {"a": "numbered"}
    assert nodes.newest_version == 1
    assert nodes.gone({}, "") == []
    assert nodes.gone({}, "1") == ["n1"]

"""Tests of what a node's labels give."""

import msgspec

from api_types.kubernetes import pods
from scheduler_plugin.load_watcher import known_nodes


def test_tags_are_the_named_labels_that_the_node_has() -> None:
    wire = {"metadata": {"name": "a", "labels": {"rack": "7", "other": "x"}}, "status": {}}
    node = msgspec.convert(wire, type=pods.Node)
    assert known_nodes.known_node(node, tag_labels=["rack", "absent"]).tags == {"rack": "7"}
    assert known_nodes.known_node(node).tags == {}

"""Tests of what a node's labels give."""

import msgspec

from api_types.kubernetes import pods
from scheduler_plugin.load_watcher.providers import provider


def test_tags_are_the_named_labels_that_the_node_has() -> None:
    wire = {"metadata": {"name": "a", "labels": {"rack": "7", "other": "x"}}, "status": {}}
    node = msgspec.convert(wire, type=pods.Node)
    assert provider.known_node(node, tag_labels=["rack", "absent"]).tags == {"rack": "7"}
    assert provider.known_node(node).tags == {}


def wire_node(name: str, *addresses: tuple[str, str]) -> pods.Node:
    status = {"addresses": [{"type": kind, "address": address} for kind, address in addresses]}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, type=pods.Node)


def test_an_address_names_the_one_node_that_has_it() -> None:
    nodes = {
        "a": provider.known_node(wire_node("a", ("InternalIP", "10.0.0.1"), ("Hostname", "a.example"))),
        "b": provider.known_node(wire_node("b", ("InternalIP", "10.0.0.2"), ("ExternalIP", "10.0.0.2"))),
        "c": provider.known_node(wire_node("c")),
    }
    assert provider.by_address(nodes) == {"10.0.0.1": "a", "a.example": "a", "10.0.0.2": "b"}


def test_a_node_that_claims_what_another_has_gets_nothing_of_it() -> None:
    nodes = {
        "a": provider.known_node(wire_node("a", ("InternalIP", "10.0.0.1"))),
        "b": provider.known_node(wire_node("b", ("InternalIP", "10.0.0.1"), ("Hostname", "a"))),
    }
    assert provider.by_address(nodes) == {}

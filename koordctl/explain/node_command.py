"""Command `koordctl explain node`."""

from __future__ import annotations

from argparse import Namespace

from api_types.kubernetes import pods
from apiserver_client import objects, resources
from fleet import mid_explanation, node_state, wire
from fleet.reading import Reader
from koordctl.cli import command, flags
from koordctl.cli.answer import Answer
from koordctl.explain import node
from manager.cache import store

PARAMETERS = (flags.node(), *flags.READING, flags.SUITE_NAMESPACE)


@command.reads()
async def run(reader: Reader, options: Namespace) -> Answer:
    """Read, and return the answer."""
    name, namespace = options.node, options.suite_namespace
    seen_node = store.with_mid_status(await objects.get(reader.api, resources.NODES, name, decode=pods.Node))
    metric = None
    with reader.attempt(f"nodemetrics/{name}"):
        metric = await objects.get(reader.api, resources.NODE_METRICS, name, decode=wire.WireNodeMetric)
    mid = await mid_explanation.explain(reader.api, seen_node, metric, reader.now)
    outcome = await reader.configuration(namespace, await reader.config_map(namespace))
    state = node_state.combine(name, seen_node, metric, reader.now)
    explained = node.ExplainedNode(state, mid, node_state.mid_layers(outcome, seen_node))
    return node.answer(explained, command.missing_rights(reader))

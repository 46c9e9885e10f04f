"""Command `koordctl explain node`."""

from __future__ import annotations

from argparse import Namespace

from api_types.kubernetes import pods
from apiserver_client import objects, resources
from fleet import mid_explanation, mid_terms, node_state, wire
from fleet.reading import Reader
from koordctl.cli import command, flags
from koordctl.cli.answer import Answer
from koordctl.explain import node
from manager.cache import store

PARAMETERS = (flags.node(), *flags.READING, flags.SUITE_NAMESPACE)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""

    async def read(reader: Reader) -> Answer:
        return await _explain(reader, options.node, options.suite_namespace)

    return command.run(options, read)


async def _explain(reader: Reader, name: str, namespace: str) -> Answer:
    seen_node = store.with_mid_status(await objects.get(reader.api, resources.NODES, name, decode=pods.Node))
    metric = None
    with reader.attempt(f"nodemetrics/{name}"):
        metric = await objects.get(reader.api, resources.NODE_METRICS, name, decode=wire.WireNodeMetric)
    mid = await mid_explanation.explain(reader.api, seen_node, metric, reader.now)
    outcome = await reader.configuration(namespace, await reader.config_map(namespace))
    state = node_state.combine(name, seen_node, metric, reader.now)
    explained = node.ExplainedNode(state, mid, mid_terms.layers(outcome, seen_node))
    return node.answer(explained, command.notes(unread for unread in reader.unread if unread.is_right))

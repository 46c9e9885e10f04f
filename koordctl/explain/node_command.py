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
    seen = store.with_mid_status(await objects.get(reader.api, resources.NODES, name, decode=pods.Node))
    metric = None
    with reader.attempt(f"nodemetrics/{name}"):
        metric = await objects.get(reader.api, resources.NODE_METRICS, name, decode=wire.WireNodeMetric)
    found = await mid_explanation.explain(reader.api, seen, metric, reader.now)
    outcome = await reader.configuration(namespace, await reader.config_map(namespace))
    state = node_state.combine(name, seen, metric, reader.now)
    explained = node.Explained(state, found, mid_terms.layers(outcome, seen))
    return node.answer(explained, command.notes(each for each in reader.unread if each.is_right))

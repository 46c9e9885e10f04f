"""Command `koordctl explain config`."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any, Final

from click import Option

from api_types.kubernetes import pods
from apiserver_client import objects, resources
from fleet.reading import Reader
from fleet.snapshot import LAST_GOOD_CONFIG
from koordctl.cli import command, flags, manifests
from koordctl.cli.answer import WRONG_USAGE, Answer
from koordctl.explain import config
from manager.cache import store
from manager.node_metric import spec
from manager.slo_config import evaluation, explanation
from manager.slo_config.strategy import NodeStrategy

PARAMETERS: Final = (
    flags.node(required=False, help="name of the node (default: a node without labels and annotations)"),
    Option(
        ["--config"],
        type=flags.FILE,
        metavar="FILE",
        help="document or ConfigMap manifest to use instead of the cluster's; - is standard input",
    ),
    *flags.READING,
    flags.SUITE_NAMESPACE,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        evaluated = None if options.config is None else manifests.evaluate(options.config)
    except manifests.Unusable as error:
        return command.fail(str(error), WRONG_USAGE)

    async def read(reader: Reader) -> Answer:
        return await _explain(reader, options, evaluated)

    return command.run(options, read)


async def _explain(reader: Reader, options: Namespace, evaluated: evaluation.ConfigOutcome | None) -> Answer:
    """Explain the given configuration, or that of the cluster."""
    name, file, namespace = options.node, options.config, options.suite_namespace
    node, metric = pods.Node(), None
    config_map = "" if evaluated else await reader.config_map(namespace)
    outcome = evaluated or await reader.configuration(namespace, config_map)
    if outcome is None:
        raise command.NotRead("\n".join(command.notes(reader.unread)))
    if name is not None:
        node = await objects.get(reader.api, resources.NODES, name, decode=pods.Node)
        with reader.attempt(f"nodemetrics/{name}"):
            metric = await objects.get(reader.api, resources.NODE_METRICS, name, decode=store.StoredNodeMetric)
    explained = explanation.explain(
        node.metadata.name,
        pods.label_map(node.metadata),
        pods.annotation_map(node.metadata),
        outcome,
        source=file or f"ConfigMap {namespace}/{config_map}",
        kept_in=LAST_GOOD_CONFIG,
    )
    if metric is not None and explained.strategy is not None:
        differs = _differences(metric, explained.strategy)
        explained = dataclasses.replace(explained, spec_differs=differs, preview=file is not None)
    return config.answer(explained, command.notes(unread for unread in reader.unread if unread.is_right))


def _differences(metric: store.StoredNodeMetric, strategy: NodeStrategy) -> tuple[str, ...]:
    """Return the keys in which the spec of a NodeMetric differs from a strategy, whatever the right to evict is."""
    specs = (spec.wire_for_node(strategy, may_evict=may_evict) for may_evict in (True, False))
    return min((tuple(_paths(spec.spec_patch(metric.spec, policy))) for policy in specs), key=len)


def _paths(patch: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the key paths that a merge patch sets or removes."""
    for key, value in patch.items():
        if isinstance(value, Mapping):
            yield from _paths(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"

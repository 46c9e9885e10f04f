"""`python -m manager explain-config --node N`: show the strategy of a node, and the layer of each value.

The command merges with the manager's own code and writes nothing. A file may replace each of the two inputs:
`--config FILE` shows the effect of an edit on an existing node.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods
from apiserver_client import credentials, errors, objects, resources, session
from component_base import settings
from manager.cache import store
from manager.cli import manifests
from manager.node_metric import diff
from manager.node_metric import spec as node_metric_spec
from manager.settings import ENV_PREFIX, ManagerSettings
from manager.slo_config import controller, evaluation, explanation

EXPLAINED: Final = 0
NOTHING_IN_FORCE: Final = 1
UNREADABLE: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    parser.add_argument("--node", help="name of the node; not needed where --node-file holds one Node")
    parser.add_argument(
        "--config", metavar="FILE", help="document or ConfigMap manifest to use instead of the cluster's"
    )
    parser.add_argument("--node-file", metavar="FILE", help="manifest of the Node to use instead of the cluster's")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="output format (default: text)")
    parser.add_argument("--kubeconfig", help="kubeconfig file; default as of the command run")
    parser.add_argument("--namespace", help=f"namespace of the ConfigMap (default: {names.NAMESPACE})")
    parser.set_defaults(settings_file=None)


def explain(arguments: argparse.Namespace) -> int:
    """Print the explanation; return the exit code."""
    try:
        found = asyncio.run(_explain(arguments))
    except settings.SettingsError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
        return UNREADABLE
    except (errors.ApiServerError, manifests.Unusable) as error:
        sys.stderr.write(f"{error}\n")
        return UNREADABLE
    if arguments.output == "json":
        sys.stdout.write(json.dumps(explanation.as_json(found), indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in explanation.lines(found))
    return EXPLAINED if found.strategy else NOTHING_IN_FORCE


class _Inputs(NamedTuple):
    outcome: evaluation.Outcome
    node: pods.Node
    metric: store.NodeMetric | None = None


async def _explain(arguments: argparse.Namespace) -> explanation.Explanation:
    """Gather the inputs and explain. Raises errors.ApiServerError, manifests.Unusable, settings.SettingsError."""
    chosen = settings.from_sources(ManagerSettings, arguments, os.environ, ENV_PREFIX)
    given = await _gather(arguments, chosen)
    return of_objects(
        given.outcome,
        given.node,
        given.metric,
        source=arguments.config or f"ConfigMap {chosen.namespace}/{chosen.config_map}",
        kept_in=chosen.last_good_config_map,
        preview=arguments.config is not None,
    )


def of_objects(
    outcome: evaluation.Outcome,
    node: pods.Node,
    metric: store.NodeMetric | None,
    *,
    source: str,
    kept_in: str,
    preview: bool,
) -> explanation.Explanation:
    """Explain the strategy of a Node, and compare it with the spec of its NodeMetric."""
    labels, annotations = pods.labels_of(node.metadata), pods.annotations_of(node.metadata)
    found = explanation.explain(node.metadata.name, labels, annotations, outcome, source=source, kept_in=kept_in)
    if metric is None or found.strategy is None:
        return found
    either = (node_metric_spec.wire_spec_of(found.strategy, may_evict=may) for may in (True, False))
    differs = min((tuple(_paths(diff.spec_patch(metric.spec, wanted))) for wanted in either), key=len)
    return dataclasses.replace(found, spec_differs=differs, preview=preview)


async def _gather(arguments: argparse.Namespace, chosen: ManagerSettings) -> _Inputs:
    """Read the inputs from files where they are given, else from the cluster."""
    if not arguments.node and arguments.node_file is None:
        raise manifests.Unusable("no node given: use --node NAME or --node-file FILE")
    outcome = outcome_of(arguments.config) if arguments.config is not None else None
    node = _node_of(arguments) if arguments.node_file is not None else None
    if outcome is not None and node is not None:
        return _Inputs(outcome, node)
    async with session.connect(credentials.find(chosen.kubeconfig or None), user_agent="koord-manager/explain") as api:
        outcome = outcome or await _outcome_in_cluster(api, chosen)
        if node is not None:
            return _Inputs(outcome, node)
        node = await objects.get(api, resources.NODES, arguments.node, decode=pods.Node)
        try:
            metric = await objects.get(api, resources.NODE_METRICS, arguments.node, decode=store.NodeMetric)
        except errors.NotFound:
            metric = None
    return _Inputs(outcome, node, metric)


def _paths(patch: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the key paths that a merge patch sets or removes."""
    for key, value in patch.items():
        if isinstance(value, Mapping):
            yield from _paths(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def outcome_of(file: str) -> evaluation.Outcome:
    """Evaluate a document or a ConfigMap manifest as a first one. Raises manifests.Unusable."""
    try:
        text = manifests.document_in(manifests.read(file))
    except manifests.Unusable as error:
        raise manifests.Unusable(f"{file}: {error}") from error
    return evaluation.evaluate(None, {names.COLOCATION_CONFIG_KEY: text}, exists=True)


def _node_of(arguments: argparse.Namespace) -> pods.Node:
    try:
        return manifests.node_in(manifests.read(arguments.node_file), arguments.node)
    except manifests.Unusable as error:
        raise manifests.Unusable(f"{arguments.node_file}: {error}") from error


async def _outcome_in_cluster(api: session.Session, chosen: ManagerSettings) -> evaluation.Outcome:
    """Evaluate the ConfigMaps of the cluster as a starting manager does. Raises errors.ApiServerError."""
    stored = await controller.read(api, chosen.namespace, chosen.last_good_config_map)
    current = await controller.read(api, chosen.namespace, chosen.config_map)
    return evaluation.evaluate(
        evaluation.restore(stored.data if stored else None),
        current.data if current else None,
        exists=current is not None,
    )

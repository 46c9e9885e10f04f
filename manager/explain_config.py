"""`python -m manager explain-config --node N`: which strategy holds for a node, and which layer each value is from.

It merges with the manager's own code and writes nothing. Each of the two inputs may be a file instead of the cluster's:
`--config FILE` shows what an edit would do to a node that is there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from typing import Final

from api_types import names, pods
from apiserver_client import credentials, errors, objects, resources, session
from daemon import settings
from manager import manifests
from manager.settings import ENV_PREFIX, ManagerSettings
from manager.slo_config import controller, explanation, sync

EXPLAINED: Final = 0
NOTHING_IN_FORCE: Final = 1
UNREADABLE: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's flags."""
    parser.add_argument("--node", help="name of the node; not needed where --node-file holds one Node")
    parser.add_argument(
        "--config", metavar="FILE", help="document or ConfigMap manifest to use instead of the cluster's"
    )
    parser.add_argument("--node-file", metavar="FILE", help="manifest of the Node to use instead of the cluster's")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the answer (default: text)")
    parser.add_argument("--kubeconfig", help="kubeconfig file; default as of the command run")
    parser.add_argument("--namespace", help=f"namespace of the ConfigMap (default: {names.NAMESPACE})")
    parser.set_defaults(settings_file=None)


def explain(arguments: argparse.Namespace) -> int:
    """Print the explanation; gives the exit code."""
    try:
        found = asyncio.run(_explained(arguments))
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


async def _explained(arguments: argparse.Namespace) -> explanation.Explanation:
    """Gather and explain. Raises errors.ApiServerError, manifests.Unusable, settings.SettingsError."""
    chosen = settings.from_sources(ManagerSettings, arguments, os.environ, ENV_PREFIX)
    if arguments.node is None and arguments.node_file is None:
        raise manifests.Unusable("which node? give --node NAME, or --node-file FILE")
    if arguments.config is not None and arguments.node_file is not None:
        outcome, node = _outcome_of(arguments.config), _node_of(arguments)
    else:
        to = credentials.find(chosen.kubeconfig or None)
        async with session.connect(to, user_agent="koord-manager/explain") as api:
            in_cluster = arguments.config is None
            outcome = await _outcome_there(api, chosen) if in_cluster else _outcome_of(arguments.config)
            own = arguments.node_file is not None
            node = (
                _node_of(arguments)
                if own
                else await objects.get(api, resources.NODES, arguments.node, decode=pods.Node)
            )
    return explanation.explain(
        node.metadata.name,
        pods.labels_of(node.metadata),
        pods.annotations_of(node.metadata),
        outcome,
        source=arguments.config or f"ConfigMap {chosen.namespace}/{chosen.config_map}",
        kept_in=chosen.last_good_config_map,
    )


def _outcome_of(file: str) -> sync.Outcome:
    try:
        text = manifests.document_in(manifests.read(file))
    except manifests.Unusable as error:
        raise manifests.Unusable(f"{file}: {error}") from error
    return sync.synced(None, {names.COLOCATION_CONFIG_KEY: text}, exists=True)


def _node_of(arguments: argparse.Namespace) -> pods.Node:
    try:
        return manifests.node_in(manifests.read(arguments.node_file), arguments.node)
    except manifests.Unusable as error:
        raise manifests.Unusable(f"{arguments.node_file}: {error}") from error


async def _outcome_there(api: session.Session, chosen: ManagerSettings) -> sync.Outcome:
    """What a manager that starts now would make of what is in the cluster. Raises errors.ApiServerError."""
    kept = await controller.read(api, chosen.namespace, chosen.last_good_config_map)
    there = await controller.read(api, chosen.namespace, chosen.config_map)
    return sync.synced(
        sync.restored(kept.data if kept else None), there.data if there else None, exists=there is not None
    )

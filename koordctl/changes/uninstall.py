"""Command `koordctl uninstall`: the steps of the chart's pre-delete hook, from any machine."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from api_types.kubernetes import pods
from apiserver_client import objects, resources
from component_base import logs
from fleet.findings import MANAGER, SCHEDULER
from fleet.reading import Reader
from koordctl.cli import command, flags
from koordctl.cli.answer import FINE, NOTHING, Answer, Column, Table
from koordctl.cli.document import AnswerDocument
from manager.cli import uninstall
from manager.node_metric.workload_history import stored


class Uninstall(AnswerDocument):
    """Document of `koordctl uninstall`."""

    result: str
    objects: dict[str, list[str]]
    """Names of what is stopped or removed, by what it is."""


PARAMETERS: Final = (
    *flags.READING,
    flags.NAMESPACE,
    *command.CHANGING,
    click.Option(["--timeout"], type=flags.seconds, default="240", help="limit of the whole uninstallation"),
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    return command.run(options, _uninstall, command.check_terminal)


async def _uninstall(reader: Reader, options: Namespace) -> Answer:
    parts = {part: await reader.workload(options.namespace, part) for part in (MANAGER, SCHEDULER)}
    deployments = [workload.metadata.name for workload in parts.values() if workload]
    leases = [workload.metadata.name if workload else part for part, workload in parts.items()]
    traces = await _left(reader, options.namespace, deployments, leases)
    if options.dry_run:
        return _answer(traces, "would be removed", FINE)
    if not command.is_agreed(options, [f"removes {len(names)} {what}" for what, names in traces.items()]):
        return _answer(traces, "not changed", NOTHING)
    logs.configure(logs.LogFormat.TEXT, logs.LogLevel.INFO)
    chosen = uninstall.UninstallSettings(
        namespace=options.namespace, deployments=",".join(deployments), lease=leases[0], leases=",".join(leases),
        timeout_seconds=options.timeout,
    )  # fmt: skip
    code = await uninstall.uninstall(reader.api.connection, chosen)
    is_done = code == 0
    return _answer(traces, "removed" if is_done else "not all removed", FINE if is_done else NOTHING)


async def _left(reader: Reader, namespace: str, deployments: list[str], leases: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of what is stopped or removed, by kind. Raises errors.ApiServerError."""
    nodes = (await objects.list_all(reader.api, resources.NODES, decode=pods.Node)).items
    metrics, histories = list[dict[str, Any]](), list[dict[str, Any]]()
    with reader.attempt("nodemetrics"):
        metrics = (await objects.list_all(reader.api, resources.NODE_METRICS, metadata_only=True)).items
    with reader.attempt("configmaps"):
        listing = await objects.list_all(
            reader.api, resources.CONFIG_MAPS, namespace=namespace, label_selector=stored.SELECTOR, metadata_only=True
        )
        histories = listing.items
    existing = list[str]()
    for name in leases:
        with reader.attempt(f"leases/{name}"):
            existing.append(_name(await objects.get(reader.api, resources.LEASES, name, namespace=namespace)))
    marked = [node.metadata.name for node in nodes if uninstall.carries_traces(node)]
    return {
        "Deployments to stop": deployments,
        "nodes with Mid resources or annotations": marked,
        "NodeMetrics": [_name(metric) for metric in metrics],
        "ConfigMaps with the history of workloads": [_name(history) for history in histories],
        "Leases": existing,
    }


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])


def _answer(traces: Mapping[str, list[str]], result: str, exit_code: int) -> Answer:
    columns = [Column("WHAT"), Column("COUNT", right=True)]
    return Answer(
        Uninstall(result, {what: list(objects) for what, objects in traces.items()}),
        [Table(columns, [(what, str(len(objects))) for what, objects in traces.items()])],
        [f"{what}/{name}" for what, objects in traces.items() for name in objects],
        tail=["", result],
        exit_code=exit_code,
    )

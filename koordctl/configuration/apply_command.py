"""Command `koordctl config apply`: check a document, show what it would change, ask, and write the ConfigMap."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

import click

from api_types import names
from api_types.colocation import document as colocation_document
from api_types.colocation import problem as config_problem
from apiserver_client import errors, objects, resources
from fleet.reading import Reader
from koordctl.cli import command, flags, manifests
from koordctl.cli.answer import FINE, NOTHING, Answer
from koordctl.cli.document import AnswerDocument
from koordctl.configuration import check_command, diff
from manager.slo_config import evaluation

_HELM: Final = "meta.helm.sh/"


class ConfigApply(AnswerDocument):
    """Document of `koordctl config apply`."""

    file: str
    config_map: str
    result: str
    """`applied`, `would be applied`, `not changed`, or `unchanged`."""
    before: str
    """The document before, which undoes it; empty where there was none."""
    effects: list[str]
    """What it changes, as sentences; `koordctl config diff` has the nodes."""


PARAMETERS: Final = (
    click.Argument(["file"], type=flags.FILE, help="document or ConfigMap manifest; - is standard input"),
    *flags.READING,
    flags.SUITE_NAMESPACE,
    *command.CHANGING,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    text = manifests.read_document(options.file)
    reading = colocation_document.read_config(text)
    if config_problem.refuses(reading.problems):
        return command.show(options, check_command.answer(options.file, reading))
    advice = [problem.with_effect() for problem in reading.problems]
    return command.run(options, lambda reader, options: _apply(reader, options, text, advice), command.check_terminal)


async def _apply(reader: Reader, options: Namespace, text: str, advice: Sequence[str]) -> Answer:
    namespace = options.suite_namespace
    name = await reader.config_map(namespace)
    current = await _read(reader, namespace, name)
    before = evaluation.document_text((current or {}).get("data")) or ""
    target = evaluation.evaluate(None, {names.COLOCATION_CONFIG_KEY: text}, exists=True).configuration
    assert target is not None
    compared = Namespace(suite_namespace=namespace, selector=None, preset=None, nodes=0)
    difference = await diff.compare(reader, compared, options.file, target)
    plan = [f"ConfigMap {namespace}/{name}", *advice, *difference.head, *difference.tail]

    def answered(result: str, exit_code: int, *tail: str) -> Answer:
        undo = ["the document before, which undoes it:", *before.splitlines()] if result == "applied" and before else []
        return Answer(
            ConfigApply(options.file, f"{namespace}/{name}", result, before, plan),
            difference.tables,
            [f"configmap/{name}"],
            plan if options.yes or options.dry_run else [],
            ["", f"{options.file}: {result}", *tail, *undo],
            exit_code,
            difference.notes,
        )

    if current is not None and before == text:
        return answered("unchanged", FINE)
    if options.dry_run:
        return answered("would be applied", FINE)
    if not command.is_agreed(options, plan):
        return answered("not changed", NOTHING)
    try:
        await _write(reader, namespace, name, current, text)
    except (errors.Conflict, errors.AlreadyExists) as error:
        return answered("not changed", NOTHING, f"another client has changed it meanwhile, run this again: {error}")
    except errors.Invalid as error:  # by a policy or a webhook
        return answered("not changed", NOTHING, str(error))
    return answered("applied", FINE)


async def _read(reader: Reader, namespace: str, name: str) -> dict[str, Any] | None:
    try:
        return await objects.get(reader.api, resources.CONFIG_MAPS, name, namespace=namespace)
    except errors.NotFound:
        return None


async def _write(reader: Reader, namespace: str, name: str, current: dict[str, Any] | None, text: str) -> None:
    """Write the document, into the version that was read. Raises errors.ApiServerError."""
    data = {names.COLOCATION_CONFIG_KEY: text}
    if current is not None:
        patch = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"]}, "data": data}
        await objects.merge_patch(reader.api, resources.CONFIG_MAPS, name, patch, namespace=namespace)
        return
    beside = ((await _read(reader, namespace, names.LAST_GOOD_CONFIG)) or {}).get("metadata", {})  # of the same release
    annotations = {key: value for key, value in beside.get("annotations", {}).items() if key.startswith(_HELM)}
    metadata = {"name": name, "labels": beside.get("labels", {}), "annotations": annotations}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    await objects.create(reader.api, resources.CONFIG_MAPS, body, namespace=namespace)

"""Command `koordctl simulate`: as `python -m scheduler_plugin simulate`, with the flags and exit codes of koordctl."""

from __future__ import annotations

import asyncio
import json
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, Final

from apiserver_client import errors, objects, resources
from koordctl.cli import command
from koordctl.cli.answer import FINE, NOT_READ, WRONG_USAGE
from scheduler_plugin.cli import simulate
from scheduler_plugin.config import loader

_CODES: Final = {0: FINE, 1: NOT_READ, 2: WRONG_USAGE}
_READ: Final = {"pods": resources.PODS, "nodes": resources.NODES, "metrics": resources.NODE_METRICS}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of the command."""
    simulate.add_arguments(parser)
    replaced = parser.add_argument_group("with --live", conflict_handler="resolve")
    command.add_connection_arguments(replaced)
    formats = parser.add_argument_group("output", conflict_handler="resolve")
    formats.add_argument("-o", "--output", choices=("table", "text", "json"), default="table", help="format; text is another name of table (default: table)")  # fmt: skip  # noqa: E501


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    if not options.live:
        return _CODES[simulate.run(options)]
    try:
        for config in options.config or ():
            if config != simulate.STOCK:
                loader.load(config)  # before the cluster is read
        found = asyncio.run(_read(options))
    except (command.WrongUsage, loader.InvalidConfiguration) as error:
        return command.fail(str(error), WRONG_USAGE)
    except errors.ApiServerError as error:
        return command.fail(str(error), NOT_READ)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder, f"{name}.json")) for name in found}
        while found:
            name, items = found.popitem()
            Path(files[name]).write_text(json.dumps({"items": items}), encoding="utf-8")
        return _CODES[simulate.run(Namespace(**vars(options) | files | {"live": False}))]


async def _read(options: Namespace) -> dict[str, list[Any]]:
    """Read what the files of kubectl have. Raises errors.ApiServerError, command.WrongUsage."""
    async with command.connected(options) as api:
        return {name: list((await objects.list_all(api, resource)).items) for name, resource in _READ.items()}

"""Command `koordctl version`."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import Final

import click

from apiserver_client import errors
from component_base import clock
from component_base.version import VERSION
from fleet.reading import Reader
from koordctl.cli import command, flags
from koordctl.cli.answer import UNKNOWN, Answer, Column, Table
from koordctl.cli.document import AnswerDocument


class Version(AnswerDocument):
    """Document of `koordctl version`."""

    client: str
    """Version of koordctl."""
    parts: dict[str, str]
    """Versions of Kubernetes and of the installed workloads; empty where no cluster was read."""


PARAMETERS: Final = (
    click.Option(["--client"], is_flag=True, help="do not read the cluster"),
    *flags.READING,
    flags.SUITE_NAMESPACE,
)


def run(options: Namespace) -> int:
    """Print the versions; a cluster that cannot be read is a note. Return the exit code."""
    parts, notes = ({}, []) if options.client else asyncio.run(_parts(options))
    rows = [("koordctl", VERSION), *parts.items()]
    table = Table([Column("PART"), Column("VERSION")], rows)
    return command.show(
        options, Answer(Version(VERSION, parts), [table], [f"part/{name}" for name, _ in rows], notes=notes)
    )


async def _parts(options: Namespace) -> tuple[dict[str, str], list[str]]:
    try:
        async with command.connected(options) as api:
            reader = Reader(api, clock.utc_now())
            installed = await reader.installation(options.suite_namespace)
    except errors.ApiServerError as error:
        return {}, [f"not read: {error}"]
    return {"kubernetes": installed.kubernetes or UNKNOWN, **installed.versions()}, command.missing_rights(reader)

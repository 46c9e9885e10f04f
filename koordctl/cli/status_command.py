"""Command `koordctl status`."""

from __future__ import annotations

from argparse import Namespace

from fleet.reading import Reader
from fleet.snapshot import FleetSnapshot
from koordctl.cli import command, flags, status
from koordctl.cli.answer import Answer

PARAMETERS = (*flags.READING, *flags.WATCH, flags.NAMESPACE)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""

    async def read(reader: Reader) -> Answer:
        return await _status(reader, options.namespace)

    return command.run(options, read)


async def _status(reader: Reader, namespace: str) -> Answer:
    nodes, installed = await reader.nodes(), await reader.installation(namespace)
    if nodes is None and not installed.workloads and installed.outcome is None:
        raise command.NotRead("\n".join(command.notes(reader.unread)))
    snapshot = FleetSnapshot(reader.now, reader.api.server, nodes, None, installed, tuple(reader.unread))
    named = (unread for unread in reader.unread if unread.is_right or unread.what == "nodemetrics")
    return status.answer(snapshot, command.notes(named))

"""Command `koordctl bundle`."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Final

import click

from component_base import clock
from fleet.findings import LAST_GOOD_CONFIG
from fleet.reading import Reader
from koordctl.bundle.collecting import Archive, BundleCollector
from koordctl.cli import command, flags
from koordctl.cli.answer import FINE, NOT_READ, Answer, Column, Table
from koordctl.cli.command import ProgressLine
from koordctl.cli.document import AnswerDocument

_WANTED: Final = "want a new file in a folder that exists"


class Bundle(AnswerDocument):
    """Document of `koordctl bundle`."""

    file: str
    bytes: int
    parts: list[str]
    """Files in the archive."""
    missing: list[str]
    """What could not be read, or was cut: a sentence each."""


PARAMETERS: Final = (
    *flags.READING,
    flags.NAMESPACE,
    click.Option(
        ["-f", "--file"], type=flags.PATH, metavar="FILE", help="file to write (default: koord-bundle-TIME.tgz here)"
    ),
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    return command.run(options, _bundle, _check)


def _check(options: Namespace) -> None:
    """Raise WrongUsage where no file of this name can be made."""
    if options.file is not None and (options.file.exists() or not options.file.parent.is_dir()):
        raise command.WrongUsage(f"--file {options.file}: {_WANTED}")


async def _bundle(reader: Reader, options: Namespace) -> Answer:
    path = options.file or Path(f"koord-bundle-{reader.now:%Y%m%d-%H%M%S}.tgz")
    try:
        archive = Archive(path, clock.utc_now().timestamp())
    except OSError as error:
        raise command.WrongUsage(f"--file {path}: {error.strerror}; {_WANTED}") from error
    with archive, ProgressLine(sys.stderr) as progress:
        caller = command.caller(options)
        config_maps = (await reader.config_map(options.namespace), LAST_GOOD_CONFIG)
        await BundleCollector(reader.api, archive, options.namespace, caller, progress.report).collect(config_maps)
        if not archive.names:
            raise command.NotRead("\n".join(f"not read: {text}" for text in archive.missing))
    return answer(path, archive)


def answer(path: Path, archive: Archive) -> Answer:
    """Return what was written."""
    data = Bundle(str(path), path.stat().st_size, archive.names, archive.missing)
    parts = [name for name in archive.names if name != "missing.txt"]
    return Answer(
        data,
        [Table([Column("PART")], [(name,) for name in parts])],
        [f"file/{path}"],
        tail=[
            "",
            f"wrote {path}: {len(parts)} parts, {data.bytes} bytes; secrets are taken out, check it all the same",
        ],
        notes=[f"not in it: {text}" for text in archive.missing],
        exit_code=FINE if parts else NOT_READ,
    )

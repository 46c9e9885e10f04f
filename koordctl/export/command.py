"""Command `koordctl export`."""

from __future__ import annotations

import sys
from argparse import Namespace
from importlib import resources
from typing import Final

import click

from koordctl.cli import command, flags
from koordctl.cli.answer import FINE, NOT_READ, WRONG_USAGE
from koordctl.export import dashboards, k9s

WHAT: Final = ("dashboards", "rules", "k9s")


PARAMETERS: Final = (
    click.Argument(
        ["what"],
        type=click.Choice(WHAT),
        help="dashboards of Grafana, rules of the alerts for Prometheus, or the plugin of k9s",
    ),
    click.Option(
        ["-d", "--folder"], type=flags.PATH, metavar="FOLDER", help="write files here; without it one file is printed"
    ),
)


def files(what: str) -> dict[str, str]:
    """Return the content of each file by its name."""
    if what == "k9s":
        return {"k9s-plugins.yaml": k9s.text()}
    if what == "rules":
        return {"alert-rules.yaml": resources.files("koordctl.export").joinpath("alert-rules.yaml").read_text("utf-8")}
    return dashboards.texts()


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    texts = files(options.what)
    if not texts:
        return command.fail(f"this installation of koordctl has no {options.what}", NOT_READ)
    if options.folder is None:
        if len(texts) > 1:
            return command.fail(f"{len(texts)} files: want --folder FOLDER", WRONG_USAGE)
        sys.stdout.write(next(iter(texts.values())))
        return FINE
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (options.folder / name).write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {options.folder / name}\n")
    except OSError as error:
        return command.fail(f"--folder {options.folder}: {error.strerror}; want a folder to write to", WRONG_USAGE)
    return FINE

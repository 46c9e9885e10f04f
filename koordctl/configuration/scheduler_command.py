"""Command `koordctl scheduler check`: validate the configuration of the scheduler plugin, without a cluster."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Final

import click

from koordctl.cli import command, flags, manifests
from koordctl.cli.answer import ERROR_SIGN, FINE, NOTHING, OK_SIGN, WARNING_SIGN, Answer, Column, Table
from koordctl.cli.document import AnswerDocument, Part, part
from scheduler_plugin.config import checking
from scheduler_plugin.config.checking import CheckedDocument


class CheckedSchedulerConfig(Part):
    """One configuration of the scheduler plugin."""

    document: str
    """Name of the file, and place in it."""
    valid: bool
    problems: list[str]
    advice: list[str]
    effective: dict[str, Any] | None
    """Configuration with all defaults; null where it is refused."""


class SchedulerConfigCheck(AnswerDocument):
    """Document of `koordctl scheduler check`."""

    file: str
    documents: list[CheckedSchedulerConfig]


PARAMETERS: Final = (
    click.Argument(
        ["file"],
        type=flags.FILE,
        help="a scheduler profile, a KubeSchedulerConfiguration, or a ConfigMap; - is standard input",
    ),
    *flags.OUTPUT,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        checked = checking.check(manifests.read(options.file))
    except checking.NotADocument as error:
        raise command.WrongUsage(f"{options.file}: {error}") from None
    return command.show(options, answer(options.file, checked))


def answer(file: str, checked: list[CheckedDocument]) -> Answer:
    """Return the answer: no where a document is refused. The effective configuration is in JSON and YAML."""
    rows, styles = [], []
    for document in checked:
        place = document.where or file
        faults = [(ERROR_SIGN, place, "error", text) for text in document.result.problems]
        advice = [(WARNING_SIGN, place, "advice", text) for text in document.result.advice]
        is_refused = document.result.effective is None
        state = [(ERROR_SIGN, place, "refused", "")] if is_refused else [(OK_SIGN, place, "valid", "")]
        for lines, style in ((faults, "error"), (advice, "warning"), (state, "error" if is_refused else "")):
            rows += lines
            styles += [style] * len(lines)
    columns = [Column(title) for title in ("", "DOCUMENT", "RESULT", "PROBLEM")]
    documents = [
        part(
            CheckedSchedulerConfig,
            document.result,
            document=document.where or file,
            valid=document.result.effective is not None,
        )
        for document in checked
    ]
    return Answer(
        SchedulerConfigCheck(file, documents),
        [Table(columns, rows, styles)],
        [f"document/{document.where or file}" for document in checked],
        exit_code=NOTHING if any(document.result.effective is None for document in checked) else FINE,
    )

"""Command `koordctl config check`: check a document as the manager does, without a cluster."""

from __future__ import annotations

from argparse import Namespace
from typing import Final

import click

from api_types.colocation import document as colocation_document
from api_types.colocation import problem as config_problem
from api_types.colocation.problem import Effect
from koordctl.cli import command, flags, manifests
from koordctl.cli.answer import ERROR_SIGN, FINE, NOTHING, WARNING_SIGN, Answer, Column, Table
from koordctl.cli.document import AnswerDocument, Part


class ConfigProblem(Part):
    """A key with a wrong or doubtful value."""

    path: str
    seen: str
    wanted: str
    effect: str
    """DOCUMENT_REFUSED, LAYER_IGNORED or ADVICE."""


class ConfigCheck(AnswerDocument):
    """Document of `koordctl config check`."""

    file: str
    valid: bool
    problems: list[ConfigProblem]
    unused: list[str]
    """Keys that this project does not use."""


PARAMETERS: Final = (
    click.Argument(["file"], type=flags.FILE, help="document or ConfigMap manifest; - is standard input"),
    *flags.OUTPUT,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    reading = colocation_document.read_config(manifests.read_document(options.file))
    return command.show(options, answer(options.file, reading))


def answer(file: str, reading: colocation_document.Reading) -> Answer:
    """Return the answer: no where a part of the document is refused."""
    is_refused = config_problem.refuses(reading.problems)
    rows, styles, problems = [], [], []
    for problem in reading.problems:
        sign, style = (WARNING_SIGN, "warning") if problem.effect is Effect.ADVICE else (ERROR_SIGN, "error")
        key = config_problem.format_path(problem.path)
        rows.append((sign, key, problem.actual, problem.expected, problem.effect.value))
        styles.append(style)
        problems.append(ConfigProblem(key, problem.actual, problem.expected, problem.effect.name))
    columns = [Column(title) for title in ("", "KEY", "SEEN", "WANTED", "EFFECT")]
    lines = [colocation_document.unused_text(reading.unused)] if reading.unused else []
    if not is_refused:
        lines.append("the document would be accepted" if reading.problems else "the document is good")
    return Answer(
        ConfigCheck(file, not is_refused, problems, list(reading.unused)),
        [Table(columns, rows, styles)] if rows else [],
        [f"key/{row[1]}" for row in rows],
        [f"{file}: {'; '.join(lines) or 'refused'}"],
        exit_code=NOTHING if is_refused else FINE,
    )

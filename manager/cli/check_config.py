"""`python -m manager check-config FILE`: check a document as the manager does, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from api_types.colocation import document as colocation_document
from api_types.colocation import problem as config_problem
from manager.cli import manifests

FINE: Final = 0
REFUSED: Final = 1
UNREADABLE: Final = 2


def lines(reading: colocation_document.Reading) -> Iterator[str]:
    """Format one line for each problem, and the result."""
    for problem in reading.problems:
        yield problem.with_effect()
    if reading.unused:
        yield colocation_document.unused_text(reading.unused)
    if not config_problem.refuses(reading.problems):
        yield "the document is good" if not reading.problems else "the document would be accepted"


def check(file: str) -> int:
    """Print the problems of a file ("-" is standard input) and return the exit code."""
    try:
        reading = colocation_document.read_config(manifests.document_in(manifests.read(file)))
    except manifests.Unusable as error:
        sys.stderr.write(f"{file}: {error}\n")
        return UNREADABLE
    for line in lines(reading):
        sys.stdout.write(f"{line}\n")
    return REFUSED if config_problem.refuses(reading.problems) else FINE

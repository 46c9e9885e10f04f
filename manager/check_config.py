"""`python -m manager check-config FILE`: what the manager would say of a document, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from api_types import colocation_document, config_problem, names

FINE: Final = 0
REFUSED: Final = 1
UNREADABLE: Final = 2


class NotADocument(Exception):
    """The file holds neither a document nor a ConfigMap with one."""


def document_in(text: str) -> str:
    """Take the document out of a ConfigMap manifest; any other text is the document itself. Raises NotADocument."""
    try:
        manifests = [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]
    except yaml.YAMLError:
        return text  # broken as JSON too, and the reader of the document says where
    for manifest in manifests:
        data = manifest.get("data")
        if isinstance(data, dict) and names.COLOCATION_CONFIG_KEY in data:
            return str(data[names.COLOCATION_CONFIG_KEY])
    if any("kind" in manifest or "data" in manifest for manifest in manifests):
        raise NotADocument(f"found no ConfigMap with the key data.{names.COLOCATION_CONFIG_KEY}")
    return text


def lines(reading: colocation_document.Reading) -> Iterator[str]:
    """One line for each thing to say."""
    for problem in reading.problems:
        yield problem.with_effect()
    if reading.unused:
        yield colocation_document.unused_text(reading.unused)
    if not config_problem.refuses(reading.problems):
        yield "the document is good" if not reading.problems else "the document would be accepted"


def check(file: str) -> int:
    """Print what is wrong with a file ("-" is standard input); gives the exit code."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        reading = colocation_document.read_config(document_in(text))
    except (OSError, UnicodeDecodeError, NotADocument) as error:
        sys.stderr.write(f"{file}: {error}\n")
        return UNREADABLE
    for line in lines(reading):
        sys.stdout.write(f"{line}\n")
    return REFUSED if config_problem.refuses(reading.problems) else FINE

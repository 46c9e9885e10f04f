"""Input files of the commands, `-` for standard input; a colocation-config document in one of them."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from api_types import names
from api_types.colocation import document as colocation_document
from api_types.kubernetes import yaml_text
from koordctl.cli import command
from manager.slo_config import evaluation


def read(file: str) -> str:
    """Read a file. Raises WrongUsage."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise command.WrongUsage(f"{file}: {error}") from error


def read_document(file: str) -> str:
    """Read a colocation-config document that sets a key, also out of a ConfigMap manifest. Raises WrongUsage."""
    text = _document(file)
    config = colocation_document.read_config(text).config
    if config is not None and not config.model_fields_set:
        raise command.WrongUsage(f"{file}: the document sets no key, which changes nothing; {evaluation.OFF}")
    return text


def _document(file: str) -> str:
    text = read(file)
    try:
        manifests = [manifest for manifest in yaml_text.load_items(text) if isinstance(manifest, dict)]
    except yaml_text.TooManyAliases as error:
        raise command.WrongUsage(f"{file}: {error}") from error
    except yaml.YAMLError:
        return text  # broken as JSON too; the reader of the document reports the place
    for manifest in manifests:
        data = manifest.get("data")
        if isinstance(data, dict) and names.COLOCATION_CONFIG_KEY in data:
            return str(data[names.COLOCATION_CONFIG_KEY])
    if any("kind" in manifest or "data" in manifest for manifest in manifests):
        raise command.WrongUsage(f"{file}: found no ConfigMap with the key data.{names.COLOCATION_CONFIG_KEY}")
    return text


def evaluate(file: str) -> evaluation.ConfigOutcome:
    """Evaluate the document of a file as the manager does with the first one. Raises WrongUsage."""
    return evaluation.evaluate(None, {names.COLOCATION_CONFIG_KEY: read_document(file)}, exists=True)

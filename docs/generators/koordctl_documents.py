"""JSON Schemas of the documents of `koordctl -o json`, and docs/reference/koordctl-documents.md, from their structs.

The bases are in koordctl/cli/document.py. Docstrings of a struct and of its fields are the descriptions.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import textwrap
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from docs.generators import markdown
from koordctl.backtest.report import Backtest
from koordctl.bundle.command import Bundle
from koordctl.changes.reset_prediction import ResetPrediction
from koordctl.changes.uninstall import Uninstall
from koordctl.check.results import Check
from koordctl.cli.document import API_VERSION
from koordctl.cli.status import StatusDocument
from koordctl.cli.top import NamespaceList, NodeList, PodList
from koordctl.cli.version_command import Version
from koordctl.configuration.apply_command import ConfigApply
from koordctl.configuration.check_command import ConfigCheck
from koordctl.configuration.diff import ConfigDiff
from koordctl.configuration.scheduler_command import SchedulerConfigCheck
from koordctl.estimate.estimates import EstimateDocument
from koordctl.explain.config import ConfigExplanation
from koordctl.explain.my import Tenant
from koordctl.explain.node import NodeExplanation
from koordctl.explain.pod import PodExplanation
from koordctl.gain.gains import GainDocument

DOCUMENTS: Final[tuple[type[msgspec.Struct], ...]] = (
    StatusDocument,
    Check,
    NodeList,
    PodList,
    NamespaceList,
    Tenant,
    NodeExplanation,
    PodExplanation,
    ConfigExplanation,
    ConfigCheck,
    ConfigDiff,
    ConfigApply,
    SchedulerConfigCheck,
    GainDocument,
    EstimateDocument,
    Backtest,
    Bundle,
    Version,
    ResetPrediction,
    Uninstall,
)
"""In the order of the page."""
FOLDER: Final = "koordctl"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_INTRODUCTION: Final = f"""
What a command prints with `-o json` or `-o yaml`: one document with `apiVersion: {API_VERSION}` and a `kind`. The
schema of a kind has the type and the meaning of each field. Every field is always there; one that is not known is null,
or an empty text. A later version may add fields, so a schema permits others, and a program that reads a document has to
ignore them. A document without one of these fields, or with another meaning of one, has another `apiVersion`.

`config render` prints a ConfigMap, `simulate` and `export` have formats of their own.
"""


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind."""
    return dict(map(_schema, DOCUMENTS))


def files() -> dict[str, str]:
    """Return the content of each schema by the name of its file."""
    return {f"{kind}.json": json.dumps(schema, indent=2) + "\n" for kind, schema in schemas().items()}


def page() -> str:
    """Return the whole page."""
    rows = [
        (f"[{kind}]({FOLDER}/{kind}.json)", schema["description"].removeprefix("Document of "))
        for kind, schema in schemas().items()
    ]
    table = markdown.table(("kind and schema", "printed by"), rows)
    return "".join([markdown.head("Documents of koordctl", "the structs of the documents"), _INTRODUCTION, table])


def _schema(document: type[msgspec.Struct]) -> tuple[str, dict[str, Any]]:
    """Return the kind and the schema; every field is required, because every field is printed."""
    made = msgspec.json.schema(document)
    definitions = made["$defs"]
    for struct in _structs(document):
        definition, texts = definitions[struct.__name__], _texts(struct)
        for field, name in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
            definition["properties"][name].pop("default", None)
            if field in texts:
                definition["properties"][name]["description"] = texts[field]
        definition["required"] = list(definition["properties"])
        definition.pop("additionalProperties", None)
    root = definitions.pop(document.__name__)
    (kind,) = root["properties"]["kind"]["enum"]
    properties = {"apiVersion": {"enum": [API_VERSION]}} | root["properties"]
    head = {"$schema": _DIALECT, "title": kind, "description": root["description"], "type": "object"}
    return kind, {**head, "properties": properties, "required": list(properties), "$defs": definitions}


def _structs(of: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs in a type."""
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        yield of
        for each in typing.get_type_hints(of).values():
            yield from _structs(each)
    for each in typing.get_args(of):
        yield from _structs(each)


def _texts(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """Return the docstring below each field that has one."""
    body = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }

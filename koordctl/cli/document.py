"""Bases of the documents of `-o json` and `-o yaml`: a struct for each kind, from which its JSON Schema is made. Pure.

A struct is next to the code that fills it. Its name is the kind, its docstrings are the descriptions of the schema.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from fleet import node_state

API_VERSION: Final = "koordctl/v1"
PartT = TypeVar("PartT", bound=msgspec.Struct)


class AnswerDocument(msgspec.Struct, rename="camel", tag_field="kind", tag=True):
    """Base of a kind."""


class Part(msgspec.Struct, rename="camel"):
    """Base of an object in a document."""


class ResourceAmounts(Part):
    """CPU and memory; null where not known."""

    cpu_millis: int | None
    memory_bytes: int | None


def amounts(measured: node_state.Amounts) -> ResourceAmounts:
    """Return amounts with their units."""
    return ResourceAmounts(measured.cpu, measured.memory)


def part(kind: type[PartT], state: object, **values: Any) -> PartT:
    """Return a part with the attributes of a state that its fields name, and with other values."""
    names = [name for name in kind.__struct_fields__ if name not in values]
    taken = {name: getattr(state, name) for name in names}
    wire = {name: amounts(value) if isinstance(value, node_state.Amounts) else value for name, value in taken.items()}
    return kind(**wire, **values)


def to_wire(document: AnswerDocument) -> dict[str, Any]:
    """Return the document for JSON and YAML."""
    return {"apiVersion": API_VERSION, **msgspec.to_builtins(document)}

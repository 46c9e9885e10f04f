"""An attribute docstring must directly follow the attribute that it describes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("api_types", "apiserver_client", "component_base", "crds", "koordlet", "manager", "scheduler_plugin")
FILES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]


def is_string(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def misplaced(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of strings that are neither a docstring nor directly after an assignment."""
    for scope in ast.walk(tree):
        is_documentable = isinstance(scope, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(scope, field, None)
            if not isinstance(statements, list):
                continue
            for index, statement in enumerate(statements):
                if not is_string(statement):
                    continue
                is_head = index == 0 and field == "body" and is_documentable
                before = statements[index - 1] if index else None
                if not is_head and not isinstance(before, ast.Assign | ast.AnnAssign):
                    yield statement.lineno


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_attribute_docstring_follows_its_attribute(file: Path) -> None:
    found = list(misplaced(ast.parse(file.read_text(encoding="utf-8"))))
    assert not found, f"{file.relative_to(ROOT)}: lines {found}: want an assignment directly before the string"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('"""Module."""\nA = 1\n"""A."""\n', []),
        ('class C:\n    """C."""\n    a: int\n    """a."""\n    def f(self):\n        """f."""\n', []),
        ('A = 1\n"""A."""\n"""Of another attribute."""\n', [3]),
        ('def f():\n    return 1\n"""f."""\n', [3]),
        ('if 1:\n    """Nothing."""\n', [2]),
    ],
)
def test_finds_misplaced_strings(source: str, lines: list[int]) -> None:
    assert list(misplaced(ast.parse(source))) == lines

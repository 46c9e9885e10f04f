"""Which modules a program of an image imports, read from its sources, and which of them the image lacks."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.images.file_trees import Tree

_PLACES = ("app/", "venv/lib/python3.11/site-packages/", "usr/lib/python3.11/", "usr/lib/python3.11/lib-dynload/")


def missing(tree: Tree, starts: list[str]) -> Iterator[tuple[str, str]]:
    """Return a file of this project and the module that it imports, for each module that the image lacks.

    Only imports count that run when a program starts: none in functions, for type checkers, or with an alternative.
    """
    names = {path.partition(place)[2].partition(".")[0] for place in _PLACES for path in tree if path.startswith(place)}
    modules, waiting, seen = {name.replace("/", ".") for name in names}, list(starts), set[str]()
    packages = {module.rpartition(".")[0] for module in modules}
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        path = next((path for path in _files(module) if path in tree), None)
        if path is None:
            yield "entry point", module
            continue
        for names_of_import in _imports(ast.parse(tree[path].content)):
            present = next((name for name in names_of_import if name in modules | packages), None)
            top = names_of_import[-1].partition(".")[0]
            if present is None and (f"app/{top}/__init__.py" in tree or not _is_built_in(top)):
                yield path, names_of_import[-1]
            elif present and any(file in tree for file in _files(present)):
                parents = [present.rsplit(".", count)[0] for count in range(present.count(".") + 1)]
                waiting += [parent for parent in parents if any(file in tree for file in _files(parent))]


def _files(module: str) -> list[str]:
    path = f"app/{module.replace('.', '/')}"
    return [f"{path}.py", f"{path}/__init__.py"]


def _is_built_in(module: str) -> bool:
    """Return whether a module of Python is none of its files: it is part of the program, as most of those in C are."""
    if module not in sys.stdlib_module_names:
        return False
    specification = importlib.util.find_spec(module)
    return specification is None or Path(specification.origin or "").suffix != ".py"


def _imports(node: ast.AST) -> Iterator[list[str]]:
    """Return the possible names of each import: `from a import b` may be of the module a.b, else it is of a."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ([alias.name] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
            yield from ([f"{child.module}.{alias.name}", child.module] for alias in child.names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Try):
            continue
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from _imports(child)

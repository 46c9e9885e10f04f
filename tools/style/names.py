"""Measure loose names: bindings, functions called `of`, and class names with two meanings."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.style.sizes import PRODUCT

LOOSE: Final = frozenset(
    ("each", "found", "seen", "known", "given", "own", "left", "wanted", "made", "asked", "kept", "held")
)
MOST_LOOSE_PERCENT, MOST_OF_FUNCTIONS, MOST_SHARED_CLASS_NAMES = 1.5, 15, 20


class Names(NamedTuple):
    """What the product calls its things."""

    bindings: int
    loose: Counter[str]
    """Loose bindings by file."""
    of_functions: list[str]
    """`file:line name` of functions called `of`, `of_*` or `*_of`."""
    shared_classes: dict[str, list[str]]
    """Files by the name of a class that more than one of them defines."""


def measure(root: Path) -> Names:
    """Read the names of all modules of the product."""
    bindings, loose, functions = 0, Counter[str](), []
    classes = defaultdict[str, list[str]](list)
    for folder in (*PRODUCT, "charts"):
        for path in sorted((root / folder).rglob("*.py")):
            file = str(path.relative_to(root))
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = [*_bound(tree)]
            bindings += len(names)
            loose[file] += sum(name.lstrip("_") in LOOSE for name in names)
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    classes[node.name].append(file)
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_of(node.name):
                    functions.append(f"{file}:{node.lineno} {node.name}")
    shared = {name: files for name, files in classes.items() if len(files) > 1}
    return Names(bindings, +loose, functions, shared)


def problems(root: Path) -> Iterator[str]:
    """Yield one line for each bound that the product exceeds."""
    names = measure(root)
    percent = 100 * names.loose.total() / names.bindings
    if percent > MOST_LOOSE_PERCENT:
        yield f"{percent:.1f} % of all bindings are loose words, want at most {MOST_LOOSE_PERCENT} %"
    if len(names.of_functions) > MOST_OF_FUNCTIONS:
        yield f"{len(names.of_functions)} functions are called of, of_* or *_of, want at most {MOST_OF_FUNCTIONS}"
    if len(names.shared_classes) > MOST_SHARED_CLASS_NAMES:
        yield f"{len(names.shared_classes)} class names mean two things, want at most {MOST_SHARED_CLASS_NAMES}"


def _is_of(name: str) -> bool:
    plain = name.strip("_")
    return plain == "of" or plain.startswith("of_") or plain.endswith("_of")


def _bound(tree: ast.AST) -> Iterator[str]:
    """Yield each name that a module binds: assignments, loops, walrus, captures and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
            yield node.name


def main() -> None:
    """Print what is measured, the worst files first."""
    names = measure(Path(__file__).parents[2])
    percent = 100 * names.loose.total() / names.bindings
    print(f"loose bindings: {names.loose.total()} of {names.bindings} ({percent:.1f} %)")
    for file, count in names.loose.most_common():
        print(f"  {count:4} {file}")
    print(f"functions called of: {len(names.of_functions)}", *names.of_functions, sep="\n  ")
    print(f"class names with two meanings: {len(names.shared_classes)}")
    for name, files in sorted(names.shared_classes.items()):
        print(f"  {name}: {' '.join(files)}")


if __name__ == "__main__":
    main()

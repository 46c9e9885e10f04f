"""Size limits: a file beyond its limit is split by subject, never into part one and two."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

COMPONENTS = ("console", "koordctl", "koordlet", "manager", "scheduler_plugin")
PRODUCT = ("api_types", "apiserver_client", "component_base", "crds", "fleet", *COMPONENTS)
MEASURED = (*PRODUCT, "e2e")
MOST_LINES, MOST_TEST_LINES, MOST_LINES_OF_A_FUNCTION = 400, 1000, 60
MEDIAN_LINES, NINE_IN_TEN_LINES, NINE_IN_TEN_LINES_OF_A_FUNCTION = 130, 300, 35
MOST_MODULES, MOST_ENTRIES_OF_A_COMPONENT = 20, 16


def problems(root: Path) -> Iterator[str]:
    """Yield one line for each limit that a checkout exceeds."""
    files = _lines_of(root, MEASURED)
    yield from _beyond(files, MOST_LINES, "lines")
    yield from _beyond(_lines_of(root, ("tests",)), MOST_TEST_LINES, "lines")
    functions = {name: size for path in files for name, size in _functions(root, path)}
    yield from _beyond(functions, MOST_LINES_OF_A_FUNCTION, "lines of a function")
    sizes = {"the median file": statistics.median(size for size in files.values() if size > 2)}
    yield from _beyond(sizes, MEDIAN_LINES, "lines")
    nine_in_ten = _nine_in_ten([size for size in files.values() if size > 2])
    yield from _beyond({"nine in ten files": nine_in_ten}, NINE_IN_TEN_LINES, "lines")
    nine_in_ten = _nine_in_ten([*functions.values()])
    yield from _beyond({"nine in ten functions": nine_in_ten}, NINE_IN_TEN_LINES_OF_A_FUNCTION, "lines")
    folders = {str(folder) for folder in (Path(path).parent for path in files) if folder.parts[0] in PRODUCT}
    yield from _beyond({each: len([*(root / each).glob("*.py")]) for each in folders}, MOST_MODULES, "modules")
    entries = {each: [entry for entry in (root / each).iterdir() if entry.name != "__pycache__"] for each in COMPONENTS}
    yield from _beyond({each: len(of) for each, of in entries.items()}, MOST_ENTRIES_OF_A_COMPONENT, "entries")


def _lines_of(root: Path, folders: tuple[str, ...]) -> dict[str, int]:
    found = (path for folder in folders for path in sorted((root / folder).rglob("*.py")))
    return {str(path.relative_to(root)): len(path.read_text(encoding="utf-8").splitlines()) for path in found}


def _functions(root: Path, path: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path}: {node.name}", (node.end_lineno or 0) - node.lineno + 1


def _nine_in_ten(sizes: list[int]) -> int:
    return sorted(sizes)[int(len(sizes) * 0.9)]


def _beyond(sizes: Mapping[str, float], most: int, what: str) -> Iterator[str]:
    for name, size in sizes.items():
        if size > most:
            yield f"{name}: {size:.0f} {what}, want at most {most}; split it by subject"

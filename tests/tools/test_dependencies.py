"""Who may import whom among the tools and the end-to-end tests."""

import ast
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PRODUCT = set(
    tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
)


def imported(folder):
    """Return every module that a Python file below `folder` imports, with the file."""
    for file in sorted((REPOSITORY / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from ((file, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield file, node.module
                yield from ((file, f"{node.module}.{alias.name}") for alias in node.names)


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("tools", {*PRODUCT, "e2e", "tests", "benchmarks"}),
        ("tools/localcluster", {*PRODUCT, "tools.images", "e2e", "tests", "benchmarks"}),
        ("e2e/support", {*PRODUCT, "tests", "benchmarks"}),
        ("e2e/demo", {*PRODUCT, "tests", "benchmarks"}),
    ],
)
def test_imports_nothing_of_the_product_and_nothing_above(folder, forbidden):
    found = [
        f"{file.relative_to(REPOSITORY)} imports {module}"
        for file, module in imported(folder)
        if any(module == each or module.startswith(f"{each}.") for each in forbidden)
    ]
    assert found == []


@pytest.mark.parametrize("package", sorted(PRODUCT))
def test_the_product_imports_no_tool_and_no_test(package):
    found = [f"{file.relative_to(REPOSITORY)} imports {module}" for file, module in imported(package)
             if module.partition(".")[0] in {"tools", "tests", "e2e", "benchmarks"}]  # fmt: skip
    assert found == []

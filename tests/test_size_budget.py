"""The size budget of CONTRIBUTING.md: a file beyond it is split by subject, never into part one and two."""

import ast
import pathlib
import statistics

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = (
    "api_types",
    "apiserver_client",
    "component_base",
    "console",
    "fleet",
    "koordctl",
    "koordlet",
    "manager",
    "scheduler_plugin",
    "crds",
    "e2e",
)
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))


def lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path.relative_to(ROOT)}:{node.name}", (node.end_lineno or 0) - node.lineno + 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_outgrows_its_subject(path):
    assert lines(path) <= 400


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_test_file_outgrows_its_subject(path):
    assert lines(path) <= 500


def test_files_stay_small_on_the_whole():
    sizes = sorted(lines(path) for path in FILES if lines(path) > 2)
    assert statistics.median(sizes) <= 130
    assert sizes[int(len(sizes) * 0.9)] <= 300


def test_functions_stay_short():
    sizes = {name: size for path in FILES for name, size in functions(path)}
    assert {name: size for name, size in sizes.items() if size > 60} == {}
    assert sorted(sizes.values())[int(len(sizes) * 0.9)] <= 35


@pytest.mark.parametrize("component", ["console", "koordctl", "koordlet", "manager", "scheduler_plugin"])
def test_the_root_of_a_component_is_seen_at_a_glance(component):
    assert len([entry for entry in (ROOT / component).iterdir() if entry.name != "__pycache__"]) <= 16


def test_no_folder_of_the_product_holds_too_many_modules():
    product = [path for path in FILES if path.relative_to(ROOT).parts[0] != "e2e"]
    folders = {path.parent for path in product}
    counts = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count > 20} == {}

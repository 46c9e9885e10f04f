"""Files that the pages name exist; the table of changes names every registry."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILE = re.compile(r"`([\w.-]+/[\w/.-]+)`")


def rows(text):
    return [line for line in text.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_folder_that_a_page_names_exists(page):
    folders = {path.name for path in ROOT.iterdir()}
    named = [each for each in FILE.findall(page.read_text(encoding="utf-8")) if each.split("/")[0] in folders]
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_the_table_of_changes_names_the_registry_of_every_kind_of_plug_in():
    text = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
    changes = "\n".join(rows(text.split("## Where a change goes")[1]))
    registries = {
        str(path.relative_to(ROOT))
        for component in ("koordlet", "scheduler_plugin")
        for path in (ROOT / component).rglob("registry.py")
    }
    assert registries
    assert [each for each in registries if each not in changes] == []

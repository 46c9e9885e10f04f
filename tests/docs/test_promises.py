"""Tests that docs/reference/trimaran-promises.md covers every feature and defect with existing tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "trimaran-promises.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| ([GB]\d+) \| .* \| (.*) \|$", PAGE, re.MULTILINE))
IDS = [*(f"G{number}" for number in range(1, 21)), *(f"B{number}" for number in range(1, 18))]


def test_every_feature_and_every_defect_has_a_row() -> None:
    assert list(ROWS) == IDS


@pytest.mark.parametrize("row_id", IDS)
def test_a_row_lists_an_existing_test_decision_or_benchmark(row_id: str) -> None:
    row = ROWS[row_id]
    tests = re.findall(r"`(test_\w+\.py)(?:::(test_\w+?)_?…)?`", row)
    files = re.findall(r"`((?:tests|docs)/[\w/.-]+)`", row)
    decisions = [f"docs/contributing/decisions/{int(number):04d}-" for number in re.findall(r"decision (\d+)", row)]
    assert tests or files or decisions
    for name, beginning in tests:
        contents = [found.read_text(encoding="utf-8") for found in (ROOT / "tests" / "scheduler_plugin").rglob(name)]
        assert any(f"def {beginning}" in content for content in contents), (name, beginning)
    assert all((ROOT / file).exists() for file in files)
    pages = [str(page.relative_to(ROOT)) for page in ROOT.glob("docs/contributing/decisions/*.md")]
    assert all(any(page.startswith(each) for page in pages) for each in decisions)

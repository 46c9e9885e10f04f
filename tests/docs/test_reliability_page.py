"""docs/reliability.md names tests that exist."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/reliability.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:tests|e2e)/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=lambda part: part or "whole")
def test_a_named_test_exists(file, name):
    text = (REPOSITORY / file).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {name}\(" if name else r"^(async )?def test_", text, re.MULTILINE)


def test_every_finding_has_a_test():
    findings, matrix = PAGE.split("\n## Faults and components\n")
    assert "<!-- matrix: " in matrix
    rows = [line for line in findings.splitlines() if line.startswith("| ") and not line.startswith("| what happens")]
    assert len(rows) > 50
    assert [row for row in rows if not re.search(r"`(tests|e2e)/", row)] == []

"""Run the tests that docs/reference/trimaran-coverage.md lists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.charts import chart

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "trimaran-coverage.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (\d+|[GB]\d+) \| (.*) \|$", PAGE, re.MULTILINE))
IDS = [str(number) for number in range(1, 95)]
IDS += [*(f"G{number}" for number in range(1, 21)), *(f"B{number}" for number in range(1, 18))]
SUITES = (
    "tests/scheduler_plugin", "tests/docs/test_trimaran_plugin_pages.py",
    "tests/charts/test_trimaran.py", "tests/charts/test_load_watcher.py",
)  # fmt: skip


def pytest_output(*arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    return result.stdout


def listed() -> set[tuple[str, str]]:
    """Return the file of each listed test, and a pattern of its name: exact, or a beginning before `…`."""
    found = re.findall(r"`(test_\w+\.py)(?:::(\w*)(…)?)?`", "\n".join(ROWS.values()))
    return {(file, name + (r"\w*" if not name or more else "")) for file, name, more in found}


def test_every_line_every_feature_and_every_defect_has_a_row() -> None:
    assert list(ROWS) == IDS


@pytest.mark.parametrize("row_id", IDS)
def test_a_row_lists_a_test_a_file_or_a_decision_that_exists(row_id: str) -> None:
    row = ROWS[row_id]
    files = re.findall(r"`((?:tests|docs|e2e|benchmarks)/[\w/.-]+)`", row)
    numbers = [int(number) for number in re.findall(r"decision (\d+)", row)]
    assert re.search(r"`test_\w+\.py", row) or files or numbers
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert [number for number in numbers if not list(ROOT.glob(f"docs/contributing/decisions/{number:04d}-*.md"))] == []
    assert ("different on purpose" not in row) or numbers
    assert "partial" not in row


def matching(functions: set[str], file: str, name: str) -> set[str]:
    return {each for each in functions if re.search(rf"/{file}::{name}$", each)}


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_the_listed_tests_exist_and_pass(request: pytest.FixtureRequest) -> None:
    session = {item.nodeid.partition("[")[0] for item in request.session.items}
    if all(matching(session, *each) for each in listed()):
        return  # this session runs them itself
    lines = pytest_output("--collect-only", *SUITES).splitlines()
    collected = {line.partition("[")[0] for line in lines if "::" in line}
    missing = [each for each in listed() if not matching(collected, *each)]
    assert not missing
    chosen = set().union(*(matching(collected, *each) for each in listed()))
    if chart.helm() is None:
        chosen = {each for each in chosen if not each.startswith("tests/charts/")}
    summary = pytest_output("-rs", *sorted(chosen)).splitlines()[-1]
    assert re.search(r"\d+ passed", summary)
    assert not re.search(r"skipped|xfailed|deselected", summary)

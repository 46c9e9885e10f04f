"""The lists of cases in e2e/conftest.py name existing files."""

from pathlib import Path

import pytest

from e2e import conftest

FILES = {file.stem for file in conftest.CASES.rglob("test_*.py")}


@pytest.mark.parametrize("listed", ["LONG", "LAST"])
def test_every_listed_case_exists_once(listed):
    names = getattr(conftest, listed)
    assert [name for name in names if name not in FILES] == []
    assert len(set(names)) == len(names)


def test_file_names_of_cases_are_unique():
    stems = [file.stem for file in Path(conftest.CASES).rglob("test_*.py")]
    assert len(stems) == len(set(stems))

"""The lists of cases in e2e/conftest.py name existing files."""

import re
from pathlib import Path

import pytest

from e2e import conftest
from tools.localcluster.providers.registry import PROVIDERS

FILES = {file.stem: file for file in conftest.CASES.rglob("test_*.py")}
LISTS = {
    **{name: getattr(conftest, name) for name in ("LONG", "LAST", "ON_CGROUP_V1", "SKIPS_BY_MACHINE")},
    **{f"SKIPS of {provider}": names for provider, names in conftest.SKIPS.items()},
}
SKIPS = r"pytest\.skip\(|mark\.skip|shell_in_node"
SKIPPING = {name for name, file in FILES.items() if re.search(SKIPS, file.read_text("utf-8"))}


@pytest.mark.parametrize("names", LISTS.values(), ids=LISTS)
def test_every_listed_case_exists_once(names):
    assert [name for name in names if name not in FILES] == []
    assert len(set(names)) == len(names)


def test_file_names_of_cases_are_unique():
    stems = [file.stem for file in Path(conftest.CASES).rglob("test_*.py")]
    assert len(stems) == len(set(stems))


def test_each_provider_has_a_list_of_skips_and_each_listed_case_a_skip():
    assert conftest.SKIPS.keys() == PROVIDERS.keys()
    listed = {*conftest.SKIPS_BY_MACHINE, *(name for names in conftest.SKIPS.values() for name in names)}
    assert listed == SKIPPING


def skipped():
    return pytest.TestReport("a", ("a", 1, "a"), {}, "skipped", ("a", 1, "Skipped: no audit log"), "setup")


def test_a_skip_that_no_list_allows_fails_with_its_reason():
    report = skipped()
    conftest.refuse_skip(report, "test_shadow", conftest.SKIPS["kind"], "kind")
    assert report.failed
    assert re.search("no audit log: test_shadow may not be skipped with --provider kind", str(report.longrepr))


def test_a_skip_that_a_list_allows_stays_one():
    report = skipped()
    conftest.refuse_skip(report, "test_shadow", conftest.SKIPS["existing"], "existing")
    assert report.skipped

"""The recorded lines of tests: a mutant is first tried with the tests of its line."""

import pytest

from tests.mutants import lines, mutations, trials
from tests.mutants.mutations import mutant

SOURCE = (
    "TWO = 2\n\n\ndef twice(a):\n    return (\n        a\n        * TWO\n    )\n\n\ndef half(a):\n    return a / TWO\n"
)
TEST = """\
import pytest

from part import one


def test_twice():
    assert one.twice(3) == 6


@pytest.mark.parametrize("a", [4, 5])
def test_half(a):
    assert one.half(a) == a / 2
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a folder with a package, and the lines of its tests, one file of which fails."""
    root = tmp_path_factory.mktemp("root")
    other = "from part import one\n\n\ndef test_it():\n    assert one.twice(2) == 5\n"
    files = {
        "part/one.py": SOURCE,
        "tests/part/test_one.py": TEST,
        "tests/test_all.py": "from part import one\n\n\ndef test_all():\n    assert one.twice(2) == 4\n",
        "tests/test_other.py": other,
        "pytest.ini": "[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    lines.record(root, root / "lines", ["part"])
    return root


@pytest.fixture
def found(recorded):
    """Return a function that gives the tests of a line."""
    read = lines.Lines(recorded / "lines")
    return lambda line: read.tests(recorded, "part/one.py", line)


def test_a_line_has_the_tests_that_run_it_its_own_first_and_none_of_a_file_that_failed(found):
    assert found(5).paths == ("tests/part/test_one.py::test_twice", "tests/test_all.py::test_all")
    assert found(12).paths == ("tests/part/test_one.py::test_half[4]", "tests/part/test_one.py::test_half[5]")


def test_a_line_within_a_statement_has_the_tests_of_the_nearest_line_before_it(found):
    assert found(8).paths == found(5).paths


def test_a_line_that_only_an_import_runs_has_none(found):
    assert found(1) is None


def test_a_file_that_has_changed_has_none(recorded, found):
    path = recorded / "part" / "one.py"
    path.write_text(f"\n{SOURCE}")
    try:
        assert found(5) is None
    finally:
        path.write_text(SOURCE)


def test_the_tests_of_a_line_kill_its_mutant_and_no_other(recorded, found):
    every = [mutant(SOURCE, position) for position in range(mutations.count(SOURCE))]
    source = {each.text: each.source for each in every}["a * TWO -> a / TWO"]
    trial = trials.Trials(recorded)
    assert trial.outcome_of_line(found(5), "part/one.py", source) == trials.KILLED
    assert trial.outcome_of_line(found(12), "part/one.py", source) == trials.SURVIVED


def test_a_mutant_that_cannot_be_imported_is_killed(recorded, found):
    assert trials.Trials(recorded).outcome_of_line(found(5), "part/one.py", "1 / 0\n") == trials.KILLED


def test_tests_that_take_long_without_a_change_too_are_no_timeout(recorded, found, monkeypatch):
    monkeypatch.setattr(trials, "_OF_LINE_SECONDS", 0.01)
    assert trials.Trials(recorded).outcome_of_line(found(5), "part/one.py", SOURCE) == trials.SURVIVED


def test_a_test_that_is_gone_kills_nothing(recorded, found):
    gone = trials.Tests(("tests/part/test_one.py::test_gone",))
    assert trials.Trials(recorded).outcome_of_line(gone, "part/one.py", "") == trials.SURVIVED

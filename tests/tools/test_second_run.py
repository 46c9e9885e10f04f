"""Failed tests run once more, in a pytest of their own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tools import second_run

pytestmark = pytest.mark.slow

CASES = """
    import pathlib, pytest
    def once(name):  # fails in its first run only
        file = pathlib.Path(__file__).with_name(name)
        if not file.exists():
            file.touch()
            raise AssertionError
    def test_good(): pass
    @pytest.mark.skip(reason="never")
    def test_skipped(): pass
"""
FLAKY = "def test_flaky(): once('a')"
FLAKY_TEARDOWN = """
@pytest.fixture
def late():
    yield
    once('b')
def test_late(late): pass
"""
BAD = "def test_bad(): assert False"
MANY = "@pytest.mark.parametrize('x', range({}))\ndef test_many(x): once(str(x))"


def run(folder: Path, *cases: str) -> tuple[int, str]:
    file = folder / "test_cases.py"
    file.write_text(textwrap.dedent(CASES) + "\n".join(cases) + "\n")
    words = [sys.executable, "-m", "tools.second_run", str(file), "--rootdir", str(folder)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False, env=alone)
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def test_a_run_without_a_failure_is_as_always(tmp_path):
    code, output = run(tmp_path)
    assert code == 0
    assert "second run" not in output
    assert "1 passed, 1 skipped in" in output.splitlines()[-1]


@pytest.mark.parametrize("flaky", [FLAKY, FLAKY_TEARDOWN])
def test_what_passes_in_the_second_run_is_listed_and_no_failure(tmp_path, flaky):
    code, output = run(tmp_path, flaky)
    assert code == 0
    assert "FLAKY: failed once, passed once: test_cases.py::test_" in output
    assert "2 passed, 0 failed, 1 run twice in" in output.splitlines()[-1]


def test_what_fails_twice_fails_the_run(tmp_path):
    code, output = run(tmp_path, FLAKY, BAD)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "FAILED twice: test_cases.py::test_bad" in output
    assert "FLAKY: failed once, passed once: test_cases.py::test_flaky" in output
    assert "2 passed, 1 failed, 2 run twice in" in output.splitlines()[-1]


@pytest.mark.parametrize(("count", "expected"), [(second_run.MOST, 0), (second_run.MOST + 1, 1)])
def test_many_failures_are_no_race(tmp_path, count, expected):
    code, output = run(tmp_path, MANY.format(count))
    assert code == expected
    assert ("second run" in output) == (expected == 0)


def test_a_run_that_does_not_end_by_itself_has_no_second_one(tmp_path):
    """A process that is killed at its timeout records no failure, and one that cannot collect has run nothing."""
    code, output = run(tmp_path, BAD, "def test_hangs():\n    import os; os._exit(1)")
    assert code == 1
    assert "second run" not in output
    code, output = run(tmp_path, "import absent")
    assert code == pytest.ExitCode.INTERRUPTED
    assert "second run" not in output

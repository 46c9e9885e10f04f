import time
import tomllib
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants import mutations, trials

pytestmark = pytest.mark.slow


def every(source):
    return [mutations.mutant(source, position) for position in range(mutations.count(source))]


def texts(source):
    return [mutant.text for mutant in every(source)]


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("x = a < b", ["a < b -> a <= b"]),
        ("x = a is None", ["a is None -> a is not None"]),
        ("x = a and b", ["a and b -> a or b"]),
        ("x = not a", ["not a -> a"]),
        ("x = a - 1", ["a - 1 -> a + 1", "1 -> 2"]),
        ("x = max(a, b)", ["max -> min"]),
        ("x = True", ["True -> False"]),
        ("IS_NEW = True", ["True -> False"]),
        ("BOUNDS = (1, 2)", ["1 -> 2", "2 -> 3"]),
        ("BYTES = 2 * size", ["2 * size -> 2 / size", "2 -> 3"]),
        ("class A(B, omit_defaults=True): x: int", ["True -> False"]),
        ("def f():\n    g()", ["g() -> pass"]),
        ("for x in y:\n    continue", ["continue -> break"]),
    ],
)
def test_each_kind_of_change_is_made(source, changed):
    assert texts(source) == changed


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "x: int",
        "def f():\n    log.info('%d', 1)",
        "raise ValueError(f'want {1}')",
        "assert a > 1",
        "x = zip(a, b, strict=True)",
        "x = f'{a + 1}'",
        "class A(B, frozen=True, gc=False): x: int",
        "_PAUSE_SECONDS = 5.0",
        "MOST_BYTES: Final = 64 * 2**20",
        "LEAST = -1",
    ],
)
def test_texts_types_and_named_numbers_are_left_alone(source):
    assert texts(source) == []


def test_a_mutant_differs_from_its_source_in_one_line_only():
    source = "def f(a):\n    if a > 1:\n        return a\n    return 2\n"
    for mutant in every(source):
        pairs = zip(source.splitlines(), mutant.source.splitlines(), strict=True)
        assert sum(before != after for before, after in pairs) == 1


@pytest.fixture
def part(tmp_path):
    """Return a function that writes a package of one module, and its test."""

    def written(source, test):
        for file, text in (("part/one.py", source), ("tests/part/test_one.py", f"from part import one\n\n{test}\n")):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers = slow\n")
        return tmp_path

    return written


def test_a_change_that_a_test_sees_is_killed_and_one_that_none_sees_survives(part):
    source = "def twice(a):\n    return a * two\n\n\ndef unused(a):\n    return a + two\n\n\ntwo = len('ab')\n"
    root = part(source, "def test_twice(): assert one.twice(3) == 6")
    trial, chosen = trials.Trials(root), trials.narrow(root, "part/one.py")
    changed = {mutant.text: mutant.source for mutant in every(source)}
    assert trial.outcome(chosen, "part/one.py", changed["a * two -> a / two"]) == trials.KILLED
    assert trial.outcome(chosen, "part/one.py", changed["a + two -> a - two"]) == trials.SURVIVED
    assert (root / "part" / "one.py").read_text() == source


@pytest.mark.timeout(180)
def test_a_mutant_that_does_not_end_is_a_timeout_and_leaves_no_process(part, monkeypatch):
    root = part("two = 2\n", "def test_it(): assert one.two == 2")
    monkeypatch.setattr(trials, "_MORE_SECONDS", 1.0)
    endless = (
        "import os, pathlib, subprocess, sys\n"
        "started = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('pids').write_text(f'{os.getpid()} {started.pid}')\n"
        "while True: pass\n"
    )
    assert trials.Trials(root).outcome(trials.narrow(root, "part/one.py"), "part/one.py", endless) == trials.TIMEOUT
    left = [pid for pid in (root / "pids").read_text().split() if not ended(pid)]
    assert left == []


def ended(pid):
    """Wait for the end of a process."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_tests_that_fail_without_a_change_are_an_error_and_kill_nothing(part):
    root = part("two = 2\n", "def test_it(): assert False")
    with pytest.raises(RuntimeError, match=r"pytest tests/part/test_one\.py tests/part fails without a change"):
        trials.Trials(root).outcome(trials.narrow(root, "part/one.py"), "part/one.py", "two = 3\n")


def test_every_package_of_the_product_has_mutants():
    project = tomllib.loads((command.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert sorted(command.PACKAGES) == project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

import subprocess
import time
import tomllib
import types
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants import mutations, trials


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


def test_the_wide_tests_run_in_two_processes_and_without_the_slow_ones(part):
    root = part(
        "two = 2\n",
        "import os, pytest\n\ndef test_it(): assert os.environ['PYTEST_XDIST_WORKER_COUNT'] == '2'\n\n"
        "@pytest.mark.slow\ndef test_slow(): assert False",
    )
    assert trials.exit_code(root, trials.wide(root, "part/one.py"), 60) == 0


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


def test_a_survivor_is_tried_again_once_its_tests_have_changed_and_only_then(part, monkeypatch, capsys):
    def outcome(self, tests, *_mutant):
        text = (self._root / "tests" / "part" / "test_one.py").read_text()
        return trials.KILLED if "== 2" in text else trials.SURVIVED

    root = part("two = 2\n", "def test_it(): assert one")
    monkeypatch.setattr(command, "RESULTS", root / "results.jsonl")
    monkeypatch.setattr(trials.Trials, "outcome", outcome)
    monkeypatch.setattr(command, "copied", lambda target: subprocess.run(["cp", "-r", f"{root}/.", target], check=True))
    chosen = [command.Chosen("part", "part/one.py", mutant) for mutant in every("two = 2\n")]

    no_lines = types.SimpleNamespace(tests=lambda *_: None)

    def printed():
        outcomes = command.tried(chosen, no_lines)
        return list(outcomes.values()), capsys.readouterr().out.split()[:1]

    assert printed() == ([trials.SURVIVED], ["survived"])
    assert printed() == ([trials.SURVIVED], [])
    part("two = 2\n", "def test_it(): assert one.two == 2")
    assert printed() == ([trials.KILLED], ["killed"])
    part("two = 2\n", "def test_it(): assert one.two == 1 + 1")
    assert printed() == ([trials.KILLED], []), "what was killed is not tried again"


def test_quick_tries_the_tests_of_the_line_alone_and_where_none_is_known_those_of_the_folder(part, monkeypatch):
    root = part("two = 2\n", "def test_it(): assert one")
    ran = []
    monkeypatch.setattr(command, "RESULTS", root / "results.jsonl")
    monkeypatch.setattr(command, "copied", lambda target: subprocess.run(["cp", "-r", f"{root}/.", target], check=True))
    for name in ("outcome", "outcome_of_line"):
        monkeypatch.setattr(trials.Trials, name, lambda _self, tests, *_: ran.append(str(tests)) or trials.SURVIVED)
    chosen = [command.Chosen("part", "part/one.py", mutant) for mutant in every("two = 2\n")]
    of_line = trials.Tests(("tests/part/test_one.py::test_it",))
    for known, first in ((of_line, str(of_line)), (None, "pytest tests/part/test_one.py tests/part")):
        recorded = types.SimpleNamespace(tests=lambda *_, known=known: known)
        assert list(command.tried(chosen, recorded, quick=True).values()) == [trials.SURVIVED]
        assert ran == [first]
        ran.clear()
    command.tried(chosen, types.SimpleNamespace(tests=lambda *_: None))
    assert ran == ["pytest -m 'not slow' -n 2 tests/part"], "what the quick run has tried is not tried again"


def test_a_timeout_has_a_column_of_its_own_and_is_no_survivor():
    outcomes = (*[trials.KILLED] * 5, trials.TIMEOUT, trials.TIMEOUT, trials.SURVIVED)
    chosen = {
        command.Chosen("part", f"part/{index}.py", mutations.Mutant(1, "0 -> 1", "")): outcome
        for index, outcome in enumerate(outcomes)
    }
    text, worst = command.table(chosen)
    assert "| part | 8 | 5 | 2 | 1 | 12 % |\n\npart/7.py:1 0 -> 1" in text
    assert worst == 12.5


def test_every_package_of_the_product_has_mutants():
    project = tomllib.loads((command.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert sorted(command.PACKAGES) == project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_a_shared_module_is_tried_by_the_parts_that_import_it_and_no_others():
    assert trials.importers(command.ROOT, "component_base/clock.py") >= {"component_base", "manager"}
    assert trials.importers(command.ROOT, "fleet/__init__.py") == {"fleet", "koordctl", "console"}
    assert trials.wide(command.ROOT, "fleet/__init__.py").paths == (
        "tests/conformance", "tests/console", "tests/fleet", "tests/koordctl",
    )  # fmt: skip
    assert trials.wide(command.ROOT, "manager/settings.py").paths == ("tests/conformance", "tests/manager")


def test_a_part_of_which_most_tests_are_slow_is_tried_by_them():
    assert "not slow" in trials.wide(command.ROOT, "manager/settings.py").options
    for part in ("console", "koordctl"):
        chosen = trials.wide(command.ROOT, f"{part}/__main__.py")
        assert f"tests/{part}" in chosen.paths
        assert "not slow" not in chosen.options


def test_every_entry_of_the_equivalent_ones_exists_and_names_its_lines():
    listed = sorted(command.equivalent())
    assert listed
    sources = {
        file: (command.ROOT / file).read_text(encoding="utf-8") for file in {each[0].split()[0] for each in listed}
    }
    changes = {file: mutations.changes(source) for file, source in sources.items()}
    for entry, part in listed:
        file, _, change = entry.partition(" ")
        lines = sources[file].splitlines()
        found = {line for line, text in changes[file] if text == change and part in lines[line - 1]}
        assert found, f"{file} has no mutant {change} in a line with {part!r}"
        assert part or len(found) == 1, f"{file}: want a part of the line: {change} is in the lines {sorted(found)}"


def test_every_module_has_tests_to_run():
    chosen = command.sample(["manager", "fleet"], 10, seed=3)
    assert len(chosen) == 20
    for tests in (trials.narrow, trials.wide):
        assert all(tests(command.ROOT, each.file).paths for each in chosen)

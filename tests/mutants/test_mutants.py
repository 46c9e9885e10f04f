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
        "x = f'{a + 1}'",
    ],
)
def test_texts_and_types_are_left_alone(source):
    assert texts(source) == []


def test_a_mutant_differs_from_its_source_in_one_line_only():
    source = "def f(a):\n    if a > 1:\n        return a\n    return 2\n"
    for mutant in every(source):
        pairs = zip(source.splitlines(), mutant.source.splitlines(), strict=True)
        assert sum(before != after for before, after in pairs) == 1


def test_a_change_that_a_test_sees_is_killed_and_one_that_none_sees_survives(tmp_path):
    (tmp_path / "tests" / "part").mkdir(parents=True)
    (tmp_path / "part").mkdir()
    source = "def twice(a):\n    return a * two\n\n\ndef unused(a):\n    return a + two\n\n\ntwo = len('ab')\n"
    (tmp_path / "part" / "one.py").write_text(source)
    (tmp_path / "tests" / "part" / "test_one.py").write_text(
        "import sys\nsys.path.insert(0, '.')\nfrom part import one\n\ndef test_twice(): assert one.twice(3) == 6\n"
    )
    trial = trials.Trials(tmp_path)
    found = {mutant.text: trial.outcome("part/one.py", mutant.source) for mutant in every(source)}
    assert found["a * two -> a / two"] == trials.KILLED
    assert found["a + two -> a - two"] == trials.SURVIVED
    assert (tmp_path / "part" / "one.py").read_text() == source


def test_tests_that_fail_without_a_change_are_an_error_and_kill_nothing(tmp_path):
    (tmp_path / "tests" / "part").mkdir(parents=True)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "one.py").write_text("two = 2\n")
    (tmp_path / "tests" / "part" / "test_one.py").write_text("def test_it(): assert False\n")
    with pytest.raises(RuntimeError, match=r"pytest tests/part/test_one\.py tests/part fails without a change"):
        trials.Trials(tmp_path).outcome("part/one.py", "two = 3\n")


def test_every_mutant_that_is_listed_as_equivalent_exists():
    listed = sorted(command.equivalent())
    assert listed
    for line in listed:
        file, _, change = line.partition(" ")
        assert change in texts((command.ROOT / file).read_text(encoding="utf-8")), (
            f"{file} has no such mutant: {change}"
        )


def test_every_module_has_tests_to_run():
    chosen = command.sample(["manager", "fleet"], 10, seed=3)
    assert len(chosen) == 20
    assert all(trials.narrow(command.ROOT, each.file) and trials.wide(command.ROOT, each.file) for each in chosen)

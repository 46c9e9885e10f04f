"""The loader: which installed predictors are used, and which are refused with a line in the log."""

import logging
import subprocess
import sys

import pytest

from api_types.colocation import controller_config
from koordlet.prediction.packages import installed
from tests.fakes import installed_package
from tests.koordlet.prediction.packages.loads import load

GOOD = "class Good:\n    def predict(self, load):\n        return 1.5\n"


def loaded(caplog):
    with caplog.at_level(logging.INFO):
        found = installed.load("n1")
    return found, [record.getMessage() for record in caplog.records]


def test_an_installed_predictor_is_found_by_the_name_of_its_entry_point(folder, caplog):
    installed_package.write(folder, "good", {"vendor/good": "good:Good"}, GOOD)
    assert installed.names() == ["vendor/good"]
    found, log = loaded(caplog)
    assert found.by_name["vendor/good"].predict(load()) == 1.5
    built_in = ", ".join(controller_config.PREDICTOR_NAMES)
    assert log == [f"predictors: installed are {built_in}; from packages vendor/good"]


def test_without_a_package_nothing_is_loaded(folder, caplog):
    found, log = loaded(caplog)
    assert (list(found.by_name), found.refused, bool(found), installed.names()) == ([], {}, False, [])
    assert log[0].endswith("; from packages none")


@pytest.mark.parametrize("name", controller_config.PREDICTOR_NAMES)
def test_a_built_in_predictor_is_not_replaced(folder, caplog, name):
    installed_package.write(folder, "shadow", {name: "shadow:Good"}, GOOD)
    found, log = loaded(caplog)
    assert (list(found.by_name), installed.names()) == ([], [])
    assert log[0] == (
        f"predictor {name} is not used: shadow (shadow:Good): the name is that of a built-in predictor; "
        f"choose another one, such as vendor/{name}"
    )


def test_two_packages_of_one_name_are_both_refused_and_named(folder, caplog):
    installed_package.write(folder, "first", {"v/twice": "first:Good"}, GOOD)
    installed_package.write(folder, "second", {"v/twice": "second:Good", "v/once": "second:Good"}, GOOD)
    found, log = loaded(caplog)
    assert list(found.by_name) == ["v/once"]
    assert "first (first:Good)" in log[0]
    assert "second (second:Good) have the same name; remove all but one" in log[0]
    assert "(" + found.refused["v/twice"] + ")" in found.missing("v/twice")


@pytest.mark.parametrize(
    "name", ["Upper", "under_score", "-dash", "a/b/c", "a//b", "plain", "v/" + "x" * 64, "dot.ted"]
)
def test_an_invalid_name_is_refused(folder, caplog, name):
    installed_package.write(folder, "odd", {name: "odd:Good"}, GOOD)
    found, log = loaded(caplog)
    assert (list(found.by_name), installed.names()) == ([], [])
    assert f"predictor {name} is not used: odd (odd:Good): the name does not match" in log[0]


@pytest.mark.parametrize(
    "source",
    [
        "import nothing_of_this_name",
        "raise SystemExit(7)",
        "this is no Python",
        "raise MemoryError",
        "class E(Exception):\n    def __str__(self): raise SystemExit(1)\n    __repr__ = __str__\nraise E",
        "def __getattr__(name):\n    raise SystemExit(5)",
        "",
    ],
)
def test_a_package_that_cannot_be_imported_costs_only_itself(folder, caplog, source):
    installed_package.write(folder, "broken", {"v/broken": "broken:Good"}, source)
    installed_package.write(folder, "good", {"v/good": "good:Good"}, GOOD)
    found, log = loaded(caplog)
    assert list(found.by_name) == ["v/good"]
    assert log[0].startswith("predictor v/broken is not used: broken (broken:Good) cannot be imported: ")


@pytest.mark.slow
def test_the_example_package_works_as_installed_and_passes_its_own_tests(folder, caplog):
    installed_package.install_example(folder)
    found, _log = loaded(caplog)
    example = found.by_name["example/recent-peak"]
    example.observe(load())
    assert example.predict(load()) == pytest.approx(3.25)
    assert example.save() == b'{"cpu": 3.25, "memory": 0.0}'
    tests = installed_package.EXAMPLE / "test_koordlet_recent_peak.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, tests],
        env={"PYTHONPATH": str(folder), "PATH": ""}, cwd=folder, capture_output=True, text=True, timeout=50,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout

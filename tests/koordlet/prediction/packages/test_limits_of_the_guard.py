"""The limits of the guard at their boundaries, and packages beside a refused one."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from koordlet.prediction.packages import guard, installed, states
from koordlet.prediction.packages.guard import GuardedPredictor
from tests.fakes import installed_package
from tests.koordlet.prediction.packages.loads import load
from tests.koordlet.prediction.packages.test_guard import guarded, predictor
from tests.koordlet.prediction.packages.test_installed import GOOD


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "..."),
        (" a\n\tb\x00 ", "a  b"),
        ("\u00e9" * 201, "\u00e9" * 200 + "..."),
        ("\U0001f600" * 201, "\U0001f600" * 200 + "..."),
        ("\ud800", "?"),
        ("", ""),
    ],
)
def test_a_text_of_a_package_becomes_one_line_of_at_most_200_characters(text, shown):
    assert guard.plain(text) == shown


def test_a_call_of_20_ms_is_not_slow():
    clock = itertools.cycle([0.0, 0.020])
    found, _ = guarded(predictor(lambda _load: 1.0), lambda: next(clock))
    assert [found.predict(load()) for _ in range(5)] == [1.0] * 5


@pytest.mark.parametrize("answer", ["", " \n"])
def test_an_empty_reason_is_named_as_such(answer):
    assert guarded(predictor(lambda _load: answer))[0].predict(load()) == "it gave no reason"


def test_a_predictor_that_is_switched_off_is_not_built_again_nor_given_a_state():
    built = []

    def build():
        built.append(predictor(lambda _load: None, restore=built.append)())
        return built[-1]

    found = GuardedPredictor("a/b", build, lambda: 0.0, lambda _text: None)
    with pytest.raises(guard.Failed):
        found.predict(load())
    found.forget()
    found.restore(b"state")
    found.observe(load())
    assert (len(built), found.save(), found.observes) == (1, None, False)


def test_forgetting_builds_a_predictor_without_a_state():
    built = []
    found = GuardedPredictor("a/b", lambda: built.append(1) or predictor()(), lambda: 0.0, lambda _text: None)
    found.forget()
    assert (len(built), found.predict(load())) == (2, 1.0)


@pytest.mark.parametrize(("name", "source"), [("a/b/c", GOOD), ("a/broken", "raise SystemExit(1)"), ("max", GOOD)])
def test_a_refused_package_hides_none_that_follows(folder, name, source):
    installed_package.write(folder, "refused", {name: "refused:Good"}, source)
    installed_package.write(folder, "good", {"v/good": "good:Good", "v/too": "good:Good"}, GOOD)
    found = installed.load("n1")
    assert (list(found.by_name), list(found.refused)) == (["v/good", "v/too"], [name])
    assert found.node_name == "n1"


def test_a_stored_state_that_is_too_large_costs_none_that_follows():
    largest = bytes(guard.MOST_STATE_BYTES)
    stored = msgspec.json.encode({"large": largest + b"x", "largest": largest, "small": b"s"})
    found, problems = states.decode(stored)
    assert found == {"largest": largest, "small": b"s"}
    assert problems == ["the state of 'large' has 65537 bytes, want at most 65536"]

"""Predictors of packages as the agent uses them: the one in force, those evaluated, and what is reported of each."""

from __future__ import annotations

import pytest

from koordlet.prediction.packages.guard import GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, NoPrediction, Peak
from koordlet.samples import Resource
from tests.koordlet.prediction.packages.loads import load


class Fixed:
    """A predictor with a given answer, which may be an error, and with a state."""

    def __init__(self, answer):
        self.answer = answer
        self.observed = []
        self.state = b"new"

    def predict(self, _load):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def observe(self, given):
        self.observed.append(given.resource)

    def save(self):
        return self.state

    def restore(self, state):
        self.state = state


def loaded(refused=None, **answers):
    """Return predictors `v/<name>` with these answers, and their objects."""
    built = {f"v/{name}": Fixed(answer) for name, answer in answers.items()}
    guarded = [GuardedPredictor(name, lambda name=name: built[name], lambda: 0.0, lambda _text: None) for name in built]
    return LoadedPredictors("n1", guarded, refused), built


def switched_off():
    """Return one that works and one that is switched off."""
    found, _ = loaded(works=2.0, off=ValueError("boom"))
    found.predict(load(), of("v/off"))
    return found


def of(name, margin=0):
    return PredictParameters(predictor=name, safety_margin_percent=margin)


def test_a_name_is_answered_by_itself_unless_its_package_is_switched_off():
    found = switched_off()
    assert [found.in_force(name) for name in ("v/works", "v/off", "v/missing", "max")] == [
        "v/works", "n-sigma-v2", "v/missing", "max",
    ]  # fmt: skip


def test_the_one_in_force_has_a_substitute_in_the_evaluation_and_others_have_none():
    found = switched_off()
    assert found.evaluated(["v/works", "v/off", "max"]) == ("v/works", "max")
    assert found.evaluated(["v/off", "v/works", "max"]) == ("n-sigma-v2", "v/works", "max")
    assert found.evaluated(["v/off", "n-sigma-v2"]) == ("n-sigma-v2",)
    assert found.evaluated(["max"]) == ("max",)


@pytest.mark.parametrize(
    ("margin", "capacity", "peak"), [(0, 16.0, 2.5), (50, 16.0, 3.5), (50, 3.5, 3.5), (50, 3.25, 3.25), (0, 1.0, 1.0)]
)
def test_a_peak_is_raised_by_the_margin_and_then_by_the_cold_requests_up_to_the_capacity(margin, capacity, peak):
    found, _ = loaded(two=2.0)
    given = load(cold_requests=0.5, capacity=capacity)
    assert found.predict(given, of("v/two", margin)) == Peak(peak, 0.5)


def test_a_reason_names_predictor_and_resource_and_an_error_switches_off():
    found, _ = loaded(young="no history", broken=ValueError("boom"))
    assert found.predict(load("memory"), of("v/young")) == NoPrediction("predictor v/young, memory: no history")
    refused = found.predict(load("memory"), of("v/broken"))
    assert refused.cause is Cause.UNUSABLE_ANSWER
    assert refused.reason == "predictor v/broken is switched off: predict(memory) raised ValueError: boom"
    assert (found.in_force("v/young"), found.in_force("v/broken")) == ("v/young", "n-sigma-v2")


def test_the_named_ones_that_learn_get_each_load_that_there_is():
    found, built = loaded(a=1.0, b=1.0, c=1.0)
    found.observe(["v/a", "max", "v/b"], lambda resource: load("memory") if resource is Resource.MEMORY else None)
    assert [each.observed for each in built.values()] == [["memory"], ["memory"], []]
    found.observe(["v/c"], lambda resource: load(resource.value))
    assert built["v/c"].observed == ["cpu", "memory"]


def test_a_missing_one_is_reported_with_what_is_installed():
    found, _ = loaded({"v/odd": "odd (odd:Odd) cannot be imported"}, a=1.0, b=1.0)
    installed = found.listing()
    assert installed.startswith("installed are n-sigma-v1, n-sigma-v2, ")
    assert installed.endswith("; from packages v/a, v/b")
    assert LoadedPredictors().listing().endswith("; from packages none")
    assert found.missing("v/x").startswith(f"predictor v/x is not installed on node n1: {installed}; install its ")
    assert found.missing("v/odd").startswith(
        f"predictor v/odd is not installed on node n1 (odd (odd:Odd) cannot be imported): {installed}; install its "
    )


def test_only_one_that_is_switched_off_is_a_problem_while_in_force():
    found = switched_off()
    assert [found.problem_in_force(name) for name in ("v/works", "v/missing", "max")] == [None, None, None]
    assert found.problem_in_force("v/off") == (
        "predictor v/off is switched off on node n1 until the agent restarts: predict(cpu) raised ValueError: boom; "
        "n-sigma-v2 is in force in its place; fix or remove its package, or name another predictor"
    )


def test_each_evaluated_one_that_is_missing_or_switched_off_is_one_problem():
    found = switched_off()
    assert found.evaluation_problems("max", ["n-sigma-v1", "v/works", "max"]) == []
    missing, off = found.evaluation_problems("max", ["v/missing", "v/missing", "n-sigma-v1", "v/off"])
    assert missing.startswith("predictor v/missing is not installed on node n1: ")
    assert missing.endswith(", or remove it from evaluatedPredictors")
    assert off == (
        "predictor v/off is switched off on node n1 until the agent restarts: predict(cpu) raised ValueError: boom; "
        "only its evaluation ends; fix or remove its package"
    )

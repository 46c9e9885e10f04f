"""Values of a wrong type in the configurations, beside values that count."""

import pytest

from api_types.colocation.problem import Effect
from scheduler_plugin.config import kube_scheduler, loader, plugin_selection
from scheduler_plugin.config.loader import InvalidConfiguration

PATH = ("plugins",)
OWN = {
    "urlPrefix": "http://127.0.0.1:10261",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "bindVerb": "bind",
    "weight": 1,
    "ignorable": True,
    "nodeCacheCapable": True,
    "httpTimeout": "300ms",
}


def found(last, **changed):
    document = {"extenders": [{**OWN, **changed}]}
    return [each for each in kube_scheduler.problems(document) if each.path[-1] == last]


@pytest.mark.parametrize("timeout", [5, 0, "0s", "-1s", "soon", True, []])
def test_a_timeout_that_is_no_positive_duration_is_a_problem(timeout):
    (problem,) = found("httpTimeout", httpTimeout=timeout)
    assert "300ms" in str(problem.wanted)


@pytest.mark.parametrize(("timeout", "is_advised"), [("1s", False), ("1ns", False), ("1.1s", True)])
def test_a_timeout_above_one_second_is_advised_against(timeout, is_advised):
    assert [each.effect for each in found("httpTimeout", httpTimeout=timeout)] == [Effect.ADVICE] * is_advised


@pytest.mark.parametrize(("weight", "is_problem"), [(1, False), (0, True), (-1, True), (True, True), ("1", True)])
def test_a_weight_is_an_integer_above_zero_beside_the_verb(weight, is_problem):
    assert bool(found("weight", weight=weight)) is is_problem
    assert not found("weight", weight=weight, prioritizeVerb="")


def test_a_list_of_a_wrong_type_does_not_hide_those_of_other_points():
    problems = []
    plugins = {"filter": {"enabled": 5}, "score": {"enabled": [{"name": "TargetLoadPacking"}]}}
    chosen = plugin_selection.select(plugins, PATH, problems, with_others=False)
    assert "TargetLoadPacking" in chosen.score_weights
    assert [each.path for each in problems] == [("plugins", "filter", "enabled")]


@pytest.mark.parametrize("weight", [-1, True, 2**31, "1"])
def test_a_plugin_with_a_weight_that_is_none_is_a_problem_and_the_next_one_counts(weight):
    problems = []
    enabled = [{"name": "TargetLoadPacking", "weight": weight}, {"name": "Peaks", "weight": 2**31 - 1}]
    chosen = plugin_selection.select({"score": {"enabled": enabled}}, PATH, problems, with_others=False)
    assert chosen.score_weights["Peaks"] == 2**31 - 1
    assert "TargetLoadPacking" not in chosen.score_weights
    assert [each.path[-1] for each in problems] == ["weight"]


def test_the_problems_of_a_configuration_are_all_reported_at_once():
    document = {"plugins": {"filter": 5, "score": {"enabled": [{"name": "Peeks"}]}, "nowhere": {}}}
    with pytest.raises(InvalidConfiguration) as caught:
        loader.parse(document)
    for path in ("plugins.filter", "plugins.nowhere", "Peeks"):
        assert any(path in each for each in caught.value.problems)

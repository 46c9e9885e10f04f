"""Problems of one part of a configuration, beside parts that are valid and still count."""

import pytest

from api_types.colocation.problem import Effect
from scheduler_plugin.config import kube_scheduler, loader
from scheduler_plugin.config.loader import InvalidConfiguration
from tests.scheduler_plugin.config.test_values_of_other_types import OWN, found

OTHER = {**OWN, "urlPrefix": "http://127.0.0.1:9"}
PACKING = {"plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}}


def of_extenders(extenders):
    return [each for each in kube_scheduler.problems({"extenders": extenders}) if each.path == ("extenders",)]


@pytest.mark.parametrize("extenders", [None, [], {}, {"urlPrefix": "x"}, "text", 5])
def test_without_a_list_of_extenders_none_is_ever_called(extenders):
    (problem,) = kube_scheduler.problems({"extenders": extenders})
    assert (problem.path, problem.effect) == (("extenders",), Effect.ADVICE)


@pytest.mark.parametrize(
    ("extenders", "count"),
    [([OTHER], 0), ([OWN], 0), ([OTHER, OWN], 0), ([OTHER, OTHER], 1), ([OTHER, 5], 1), ([5, OWN], 0)],
)
def test_of_several_extenders_one_must_be_recognised(extenders, count):
    assert len(of_extenders(extenders)) == count


@pytest.mark.parametrize(
    ("others", "checked"), [([], [0]), ([OWN], []), ([OTHER], []), ([{**OWN, "nodeCacheCapable": False}], [1])]
)
def test_the_only_extender_is_checked_on_any_port_and_of_several_the_one_that_is_recognised(others, checked):
    extenders = [{**OTHER, "nodeCacheCapable": False}, *others]
    paths = [each.path for each in kube_scheduler.problems({"extenders": extenders}) if len(each.path) == 3]
    assert paths == [("extenders", index, "nodeCacheCapable") for index in checked]


@pytest.mark.parametrize(
    ("changed", "is_advised"),
    [
        ({}, False),
        ({"bindVerb": ""}, True),
        ({"bindVerb": "", "prioritizeVerb": ""}, True),
        ({"bindVerb": "", "filterVerb": "", "preemptVerb": ""}, True),
        ({"bindVerb": "", "filterVerb": "", "preemptVerb": "", "prioritizeVerb": ""}, False),
    ],
)
def test_a_bind_verb_is_advised_beside_either_of_the_verbs_that_need_it(changed, is_advised):
    assert [each.effect for each in found("bindVerb", **changed)] == [Effect.ADVICE] * is_advised


def test_an_empty_file_has_the_defaults_and_the_content_of_another_one_counts(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("# nothing\n")
    assert loader.load(str(file)) == loader.load(None)
    file.write_text("plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 7}]}}")
    assert loader.load(str(file)).score_weights["TargetLoadPacking"] == 7


def test_only_the_plugins_that_run_and_the_estimator_have_arguments():
    assert set(loader.parse({}).args) == {"LoadAwareScheduling", "MidGuard"}
    assert set(loader.parse(PACKING).args) == {"LoadAwareScheduling", "MidGuard", "TargetLoadPacking"}


@pytest.mark.parametrize("profiles", [5, "text", {}, None, [5], [PACKING, 5], [5, PACKING]])
def test_profiles_that_are_no_list_of_objects_are_a_problem(profiles):
    with pytest.raises(InvalidConfiguration, match=r"^profiles: .*want a list of objects"):
        loader.parse({"profiles": profiles})


@pytest.mark.parametrize("wrong", [5, {"name": "MidGuard", "arguments": {}}, {"name": "MidGard"}])
def test_a_wrong_entry_of_arguments_does_not_hide_the_next_one(wrong):
    entries = [wrong, {"name": "LoadAwareScheduling", "args": {"dominantResourceWeight": 101}}]
    with pytest.raises(InvalidConfiguration) as caught:
        loader.parse({"pluginConfig": entries})
    assert [each.partition(":")[0].partition(".")[0] for each in caught.value.problems] == [
        "pluginConfig[0]",
        "pluginConfig[1]",
    ]


def test_an_unknown_key_is_answered_with_the_keys_of_its_own_level():
    args = {"aggregated": {"usageThreshold": {"cpu": 5}}}
    with pytest.raises(InvalidConfiguration) as caught:
        loader.parse({"pluginConfig": [{"name": "LoadAwareScheduling", "args": args}]})
    (problem,) = caught.value.problems
    path, _, wanted = problem.partition(": seen ")
    assert path == "pluginConfig[0].args.aggregated.usageThreshold"
    assert "usageThresholds" in wanted
    assert "filterExpiredNodeMetrics" not in wanted

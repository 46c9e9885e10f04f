"""The effective configuration, and the texts of an unusable one."""

import pytest

from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import InvalidConfiguration


def members(value):
    """Iterate over all values of a document."""
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield each
        yield from members(each)


def test_the_effective_configuration_has_the_names_of_the_file_and_nothing_unset():
    document = loader.parse({"plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}}).document()
    assert None not in list(members(document))
    (args,) = [each["args"] for each in document["pluginConfig"] if each["name"] == "TargetLoadPacking"]
    assert args["targetUtilization"] == 40
    assert document["plugins"]["score"]["disabled"] == [{"name": "*"}]


def test_an_unusable_configuration_has_all_its_problems_in_its_text():
    error = InvalidConfiguration(["first", "second"])
    assert str(error) == "first\nsecond"
    assert error.problems == ("first", "second")


@pytest.mark.parametrize("document", [5, "text", [], True])
def test_a_document_that_is_no_object_is_one_problem(document):
    with pytest.raises(InvalidConfiguration, match="an object with plugins and pluginConfig") as caught:
        loader.parse(document)
    assert len(caught.value.problems) == 1


def test_a_key_that_is_no_key_of_a_profile_is_named():
    with pytest.raises(InvalidConfiguration, match="pluginsConfig"):
        loader.parse({"kind": "KubeSchedulerConfiguration", "pluginsConfig": []})


OWN = {"plugins": {"score": {"enabled": [{"name": "Peaks"}]}}}
OTHER = {"plugins": {"score": {"enabled": [{"name": "NodeResourcesFit"}]}}}


@pytest.mark.parametrize(
    ("profiles", "wrong"), [([OWN, OTHER], []), ([OTHER, OWN], []), ([OTHER, OWN, OWN, OWN], [2, 3]), ([OWN, OWN], [1])]
)
def test_plugins_of_the_extender_belong_into_one_profile(profiles, wrong):
    problems = []
    found = loader._profile({"profiles": profiles}, problems)
    assert found.content == OWN
    assert found.path == ("profiles", profiles.index(OWN))
    assert [each.path for each in problems] == [("profiles", index) for index in wrong]


def test_of_profiles_without_such_plugins_the_first_counts_and_of_none_an_empty_one():
    assert loader._profile({"profiles": [OTHER, {}]}, []).content == OTHER
    assert loader._profile({"profiles": []}, []).content == {}


@pytest.mark.parametrize("name", ["TargetLoadPacking", "TargetLoadPackin"])
def test_a_plugin_is_found_at_any_depth_also_misspelt(name):
    assert loader.names_plugins({"a": [{"b": [{"name": name}]}]})
    assert not loader.names_plugins({"a": [{"b": [{"name": ""}, {"name": "NodeResourcesFit"}, name]}]})


def test_yaml_values_become_those_of_json():
    assert loader.as_json({1: [True, None, 2, 2.5, "x", {"a": {3}}]}) == {"1": [True, None, 2, 2.5, "x", {"a": "{3}"}]}


def test_arguments_of_a_plugin_that_does_not_run_are_a_problem_that_names_where_to_enable_it():
    with pytest.raises(InvalidConfiguration, match=r"plugins\.score\.enabled too"):
        loader.parse({"pluginConfig": [{"name": "TargetLoadPacking", "args": {}}]})

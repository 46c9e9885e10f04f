import pytest
import yaml

from scheduler_plugin import __main__ as program
from scheduler_plugin import configuration
from scheduler_plugin.configuration import InvalidConfiguration


def problems(document):
    with pytest.raises(InvalidConfiguration) as caught:
        configuration.parse(document)
    return list(caught.value.problems)


def load_aware(**args):
    return {"pluginConfig": [{"name": "LoadAwareScheduling", "args": args}]}


def test_nothing_configured_means_the_defaults_of_every_policy():
    document = configuration.load(None).document()
    assert [entry["name"] for entry in document["pluginConfig"]] == ["LoadAwareScheduling", "MidGuard"]
    assert document["pluginConfig"][0]["args"]["usageThresholds"] == {"cpu": 65, "memory": 95}


def test_the_effective_configuration_can_be_loaded_again():
    first = configuration.parse(load_aware(aggregated={"usageThresholds": {"cpu": 60}, "usageAggregationType": "p95"}))
    assert configuration.parse(first.document()) == first


def test_every_problem_is_found_at_once_with_path_value_and_wish():
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "pluginConfigs": [],
        "pluginConfig": [
            {
                "name": "LoadAwareScheduling",
                "args": {"usageThresholds": {"cpu": "65"}, "dominantResourceWeight": 101, "useageThresholds": {}},
            },
            {"name": "LoadAwareSchedulng"},
            {"name": "MidGuard", "args": {"strict": True}},
            {"name": "MidGuard"},
            "LoadAwareScheduling",
        ],
    }
    found = problems(document)
    for beginning in (
        "pluginConfigs: seen [], want one of the keys apiVersion, kind, pluginConfig",
        'pluginConfig[1].name: seen "LoadAwareSchedulng", want one of LoadAwareScheduling, MidGuard',
        'pluginConfig[3].name: seen "MidGuard", want each policy at most once',
        'pluginConfig[4]: seen "LoadAwareScheduling", want an object with name and args',
        'pluginConfig[0].args.usageThresholds.cpu: seen "65", want an integer',
        "pluginConfig[0].args.useageThresholds: seen {}, want one of the keys filterExpiredNodeMetrics,",
        "pluginConfig[0].args.dominantResourceWeight: seen 101, want 0..100",
        "pluginConfig[2].args.strict: seen true, want one of the keys (none)",
    ):
        assert [problem for problem in found if problem.startswith(beginning)], beginning
    assert len(found) == 8


@pytest.mark.parametrize("document", [[], "text", 5, {"pluginConfig": {}}, {"pluginConfig": [{"name": ["x"]}]}])
def test_a_document_of_another_shape_is_refused(document):
    assert problems(document)


def test_args_that_are_no_object_are_refused():
    assert problems({"pluginConfig": [{"name": "LoadAwareScheduling", "args": [1]}]}) == [
        "pluginConfig[0].args: seen [1], want an object"
    ]


def test_a_duration_says_what_it_wants():
    assert problems(load_aware(aggregated={"scoreAggregatedDuration": 5})) == [
        "pluginConfig[0].args.aggregated.scoreAggregatedDuration: seen 5, want a duration as text, like 5m0s"
    ]


def test_check_config_prints_the_effective_configuration(tmp_path, capsys):
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump(load_aware(usageThresholds={"cpu": 50})))
    assert program.main(["check-config", str(file)]) == 0
    effective = yaml.safe_load(capsys.readouterr().out)
    assert effective["pluginConfig"][0]["args"]["usageThresholds"] == {"cpu": 50}


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "is not YAML"), ("a: 1", "a: seen 1, want one of the keys"), ("[]", "the document: seen []")],
)
def test_check_config_refuses_a_bad_file_and_names_it(tmp_path, capsys, content, words):
    file = tmp_path / "policies.yaml"
    file.write_text(content)
    assert program.main(["check-config", str(file)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert str(file) in error


def test_the_process_does_not_start_with_a_file_it_cannot_read(capsys):
    assert program.main(["run", "--config", "/nowhere/policies.yaml"]) == 2
    assert "cannot read the configuration /nowhere/policies.yaml" in capsys.readouterr().err

import json

from api_types import names
from manager.slo_config import evaluation
from manager.slo_config.evaluation import State


def data(text):
    return {names.COLOCATION_CONFIG_KEY: text if isinstance(text, str) else json.dumps(text)}


def test_a_good_document_is_applied():
    outcome = evaluation.synced(None, data({"enable": True}), exists=True)
    assert (outcome.state, outcome.changed, outcome.problems) == (State.APPLIED, True, ())
    assert outcome.configuration is not None
    assert outcome.configuration.cluster.enable is True


def test_a_broken_document_changes_nothing():
    before = evaluation.synced(None, data({"enable": True}), exists=True).configuration
    for broken in ('{"enable"', {"midCPUThresholdPercent": 101}, {"unknown": 1}, "null"):
        outcome = evaluation.synced(before, data(broken), exists=True)
        assert (outcome.state, outcome.changed) == (State.REFUSED, False)
        assert outcome.configuration is before
        assert outcome.problems


def test_without_anything_good_there_is_no_configuration():
    assert evaluation.synced(None, data("{"), exists=True).configuration is None


def test_no_config_map_and_no_key_mean_the_defaults_and_colocation_is_off():
    before = evaluation.synced(None, data({"enable": True}), exists=True).configuration
    for given, exists, state in (
        (None, False, State.CONFIG_MAP_ABSENT),
        ({}, True, State.KEY_ABSENT),
        (data(""), True, State.KEY_ABSENT),
    ):
        outcome = evaluation.synced(before, given, exists=exists)
        assert (outcome.state, outcome.changed) == (state, True)
        assert outcome.configuration is not None
        assert outcome.configuration.cluster.enable is False


def test_another_wording_of_the_same_is_no_change():
    before = evaluation.synced(None, data({"enable": True}), exists=True).configuration
    outcome = evaluation.synced(before, data('{"ENABLE": true, "degradeTimeMinutes": 15}'), exists=True)
    assert (outcome.state, outcome.changed) == (State.APPLIED, False)


def test_a_misspelt_key_of_the_config_map_is_pointed_out():
    outcome = evaluation.synced(
        None, {"colocation_config": '{"enable": true}', "resource-qos-config": "{}"}, exists=True
    )
    assert outcome.state is State.KEY_ABSENT
    assert [str(problem) for problem in outcome.problems] == [
        'the document: seen "colocation_config", want the key colocation-config'
    ]
    assert evaluation.synced(None, {"resource-qos-config": "{}"}, exists=True).problems == ()

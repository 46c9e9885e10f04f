import json

from api_types import names
from manager.slo_config import evaluation
from manager.slo_config.evaluation import State


def data(text):
    return {names.COLOCATION_CONFIG_KEY: text if isinstance(text, str) else json.dumps(text)}


def test_an_invalid_document_changes_nothing():
    before = evaluation.evaluate(None, data({"enable": True}), exists=True).configuration
    for broken in ('{"enable"', {"midCPUThresholdPercent": 101}, {"unknown": 1}, "null"):
        outcome = evaluation.evaluate(before, data(broken), exists=True)
        assert (outcome.state, outcome.changed) == (State.REFUSED, False)
        assert outcome.configuration is before
        assert outcome.problems


def test_an_absent_config_map_or_key_means_the_defaults_with_colocation_off():
    before = evaluation.evaluate(None, data({"enable": True}), exists=True).configuration
    for given, exists, state in (
        (None, False, State.CONFIG_MAP_ABSENT),
        ({}, True, State.KEY_ABSENT),
        (data(""), True, State.KEY_ABSENT),
    ):
        outcome = evaluation.evaluate(before, given, exists=exists)
        assert (outcome.state, outcome.changed) == (state, True)
        assert outcome.configuration is not None
        assert outcome.configuration.cluster.enable is False


def test_advises_on_a_misspelled_key_of_the_config_map():
    outcome = evaluation.evaluate(
        None, {"colocation_config": '{"enable": true}', "resource-qos-config": "{}"}, exists=True
    )
    assert outcome.state is State.KEY_ABSENT
    assert [str(problem) for problem in outcome.problems] == [
        'the document: seen "colocation_config", want the key colocation-config'
    ]
    assert evaluation.evaluate(None, {"resource-qos-config": "{}"}, exists=True).problems == ()

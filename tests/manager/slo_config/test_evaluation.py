import datetime as dt
import json
import time

import pytest
import yaml

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


@pytest.mark.parametrize(
    "values", [None, {}, {"colocation_config": '{"enable": true}'}, *map(data, ("", " \n", "{}", '{"enable": null}'))]
)
def test_an_absent_config_map_or_key_and_a_document_without_a_key_change_nothing(values):
    before = evaluation.evaluate(None, data({"enable": True}), exists=True).configuration
    outcome = evaluation.evaluate(before, values, exists=values is not None)
    assert outcome.state is (State.CONFIG_MAP_ABSENT if values is None else State.KEY_ABSENT)
    assert (outcome.configuration, outcome.changed) == (before, False)
    assert evaluation.reason(outcome) == "ColocationConfigAbsent"
    assert bool(outcome.problems) is ("colocation_config" in (values or {})), "a key that looks like it"


def test_without_an_earlier_one_only_a_document_is_a_configuration():
    assert evaluation.evaluate(None, None, exists=False).configuration is None
    assert evaluation.evaluate(None, {}, exists=True).configuration is None
    first = evaluation.evaluate(None, data("{}"), exists=True)
    again = evaluation.evaluate(first.configuration, data("{}"), exists=True)
    assert (first.state, again.state, again.configuration.cluster.enable) == (State.APPLIED, State.APPLIED, False)


def test_off_is_a_document_that_says_so():
    before = evaluation.evaluate(None, data({"enable": True}), exists=True).configuration
    outcome = evaluation.evaluate(before, data({"enable": False}), exists=True)
    assert (outcome.state, outcome.configuration.cluster.enable) == (State.APPLIED, False)


def test_advises_on_a_misspelled_key_of_the_config_map():
    outcome = evaluation.evaluate(
        None, {"colocation_config": '{"enable": true}', "resource-qos-config": "{}"}, exists=True
    )
    assert outcome.state is State.KEY_ABSENT
    assert [str(problem) for problem in outcome.problems] == [
        'the document: seen "colocation_config", want the key colocation-config'
    ]
    assert evaluation.evaluate(None, {"resource-qos-config": "{}"}, exists=True).problems == ()


THEN = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
LATER = THEN + dt.timedelta(hours=1)
KEPT_IN = "koord-manager-last-good-config"


def evaluated(text, before=None):
    document = text if isinstance(text, str) else json.dumps(text)
    return evaluation.evaluate(before, {names.COLOCATION_CONFIG_KEY: document}, exists=True)


def noted(outcome, before=None, now=THEN):
    return evaluation.annotation(outcome, before, now, kept_in=KEPT_IN)


GOOD = evaluated({"enable": True})


def test_a_valid_document_is_accepted_since_its_evaluation():
    assert yaml.safe_load(noted(GOOD)) == {
        "type": "Accepted",
        "status": "True",
        "lastTransitionTime": "2026-11-21T12:00:00Z",
        "reason": "ColocationConfigApplied",
        "message": "the configuration is in force; colocation is on",
    }


def test_a_refused_document_has_every_problem_and_the_configuration_in_force():
    found = yaml.safe_load(noted(evaluated({"midCPUThresholdPercent": 150, "foo": 1}, GOOD.configuration)))
    assert (found["status"], found["reason"]) == ("False", "ColocationConfigRejected")
    assert KEPT_IN in found["message"]
    assert "colocation is on" in found["message"]
    assert [problem.split(":")[0] for problem in found["problems"]] == ["foo", "midCPUThresholdPercent"]
    nothing_before = yaml.safe_load(noted(evaluated("{")))
    assert (
        nothing_before["message"] == "refused, and there is no earlier one: nothing changes until samples are too old"
    )


def test_a_document_with_a_refused_entry_is_accepted_in_part():
    entry = {"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}, "midCPUThresholdPercent": 300}
    found = yaml.safe_load(noted(evaluated({"enable": True, "nodeConfigs": [entry]})))
    assert (found["status"], found["reason"]) == ("True", "ColocationConfigIgnored")
    assert found["message"].endswith("1 nodeConfigs entry, 1 of them ignored")


def test_an_absent_key_is_not_accepted_and_says_what_stays_in_force():
    shown = yaml.safe_load(noted(evaluation.evaluate(GOOD.configuration, {}, exists=True)))
    assert (shown["status"], shown["reason"]) == ("False", "ColocationConfigAbsent")
    assert shown["message"] == (
        "the key colocation-config is absent or empty, the last good configuration stays in force "
        f"(ConfigMap {KEPT_IN}): colocation is on"
    )


def test_the_time_of_the_transition_stays_while_the_status_does():
    refused = noted(evaluated("{", GOOD.configuration))
    still = noted(evaluated("[", GOOD.configuration), before=refused, now=LATER)
    assert yaml.safe_load(still)["lastTransitionTime"] == "2026-11-21T12:00:00Z"
    fixed = noted(GOOD, before=still, now=LATER)
    assert yaml.safe_load(fixed)["lastTransitionTime"] == "2026-11-21T13:00:00Z"


def test_replaces_the_text_of_another_client():
    for text in ("", "[1]", "{", "message: none", "- type: Accepted"):
        assert yaml.safe_load(noted(GOOD, before=text))["status"] == "True"


def test_yaml_that_multiplies_is_replaced_without_being_expanded():
    levels = [f"l{level}: &l{level} {{<<: [{', '.join([f'*l{level - 1}'] * 8)}]}}" for level in range(1, 15)]
    began = time.process_time()
    for head in ("", noted(GOOD)):
        text = head + "l0: &l0 {a: 1, b: 2}\n" + "\n".join(levels)
        assert noted(GOOD, before=text, now=LATER) == (noted(GOOD) if head else noted(GOOD, now=LATER))
    assert time.process_time() - began < 1


def test_a_document_with_many_long_problems_stays_readable_and_small():
    text = noted(evaluated({f"{number}{'x' * 500}": number for number in range(100)}, GOOD.configuration))
    found = yaml.safe_load(text)
    assert (len(found["problems"]), found["furtherProblems"]) == (10, 90)
    assert len(text) < 5000


def test_kubectl_describe_cuts_no_line_of_ordinary_problems():
    text = noted(evaluated({"midCPUThresholdPercent": 150, "nodePredictPolicy": {"predictor": "crystal-ball"}}))
    assert max(map(len, text.splitlines())) <= 138


def test_keys_that_are_accepted_without_effect_are_named():
    found = yaml.safe_load(noted(evaluated({"enable": True, "cpuReclaimThresholdPercent": 60})))
    assert found["status"] == "True"
    assert found["unused"].startswith("accepted without effect")
    assert found["unused"].endswith(": cpuReclaimThresholdPercent")
    assert "unused" not in yaml.safe_load(noted(GOOD))


def entry(name, **keys):
    return {"name": name, "nodeSelector": {"matchLabels": {"pool": name}}, **keys}

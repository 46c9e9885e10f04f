import datetime as dt
import json

import yaml

from api_types import names
from manager.slo_config import condition, evaluation

THEN = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
LATER = THEN + dt.timedelta(hours=1)
KEPT_IN = "koord-manager-last-good-config"


def judged(text, before=None):
    document = text if isinstance(text, str) else json.dumps(text)
    return evaluation.synced(before, {names.COLOCATION_CONFIG_KEY: document}, exists=True)


def noted(outcome, before=None, now=THEN):
    return condition.annotation(outcome, before, now, kept_in=KEPT_IN)


GOOD = judged({"enable": True})


def test_a_good_document_is_accepted_since_it_was_judged():
    assert yaml.safe_load(noted(GOOD)) == {
        "type": "Accepted",
        "status": "True",
        "lastTransitionTime": "2026-11-21T12:00:00Z",
        "reason": "ColocationConfigApplied",
        "message": "the configuration is in force; colocation is on",
    }


def test_a_refused_one_names_every_problem_and_what_is_in_force_instead():
    found = yaml.safe_load(noted(judged({"midCPUThresholdPercent": 150, "foo": 1}, GOOD.configuration)))
    assert (found["status"], found["reason"]) == ("False", "ColocationConfigRejected")
    assert KEPT_IN in found["message"]
    assert "colocation is on" in found["message"]
    assert [problem.split(":")[0] for problem in found["problems"]] == ["foo", "midCPUThresholdPercent"]
    nothing_before = yaml.safe_load(noted(judged("{")))
    assert nothing_before["message"] == "refused, and there is no good one: nodes and NodeMetrics stay as they are"


def test_a_document_with_a_refused_entry_is_accepted_in_part():
    entry = {"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}, "midCPUThresholdPercent": 300}
    found = yaml.safe_load(noted(judged({"enable": True, "nodeConfigs": [entry]})))
    assert (found["status"], found["reason"]) == ("True", "ColocationConfigIgnored")
    assert found["message"].endswith("1 nodeConfigs entry, 1 of them ignored")


def test_an_absent_key_means_the_defaults():
    outcome = evaluation.synced(None, {}, exists=True)
    assert yaml.safe_load(noted(outcome))["message"].startswith("the key colocation-config is absent or empty")


def test_what_stands_there_already_is_not_written_again():
    assert noted(GOOD, before=noted(GOOD), now=LATER) is None


def test_the_time_of_the_transition_stays_while_the_status_does():
    refused = noted(judged("{", GOOD.configuration))
    still = noted(judged("[", GOOD.configuration), before=refused, now=LATER)
    assert yaml.safe_load(still)["lastTransitionTime"] == "2026-11-21T12:00:00Z"
    mended = noted(GOOD, before=still, now=LATER)
    assert yaml.safe_load(mended)["lastTransitionTime"] == "2026-11-21T13:00:00Z"


def test_what_somebody_else_wrote_there_is_replaced():
    for text in ("", "[1]", "{", "message: none", "- type: Accepted"):
        assert yaml.safe_load(noted(GOOD, before=text))["status"] == "True"


def test_a_document_with_many_long_problems_stays_readable_and_small():
    text = noted(judged({f"{number}{'x' * 500}": number for number in range(100)}, GOOD.configuration))
    found = yaml.safe_load(text)
    assert (len(found["problems"]), found["furtherProblems"]) == (10, 90)
    assert len(text) < 5000


def test_kubectl_describe_cuts_no_line_of_ordinary_problems():
    text = noted(judged({"midCPUThresholdPercent": 150, "nodePredictPolicy": {"predictor": "crystal-ball"}}))
    assert max(map(len, text.splitlines())) <= 138

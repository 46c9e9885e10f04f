"""The JSON of every command is valid by the schema that the documentation publishes for its kind."""

import dataclasses
import json
import pathlib

import jsonschema
import pytest

from docs.generators import koordctl_documents, pages
from fleet import checks
from koordctl import commands
from koordctl.backtest import report
from koordctl.backtest.results import CandidateSummary, Row
from koordctl.check import results
from koordctl.cli.document import AnswerDocument, to_wire
from koordctl.explain import config
from manager.slo_config import evaluation, explanation
from tests.koordctl import samples

SCHEMAS = pages.DOCS / "reference" / koordctl_documents.FOLDER
KINDS = tuple(koordctl_documents.schemas())
POLICIES = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "koord-scheduler"}],
}
LINES = {
    "Status": "status",
    "NodeList": "top nodes",
    "PodList": "top pods",
    "NamespaceList": "top namespaces",
    "Tenant": "my -n shop",
    "NodeExplanation": "explain node worker-1",
    "PodExplanation": "explain pod shop/etl-0",
    "ConfigExplanation": "explain config worker-1",
    "ConfigCheck": "config check FOLDER/doubtful.json",
    "ConfigDiff": "config diff --preset conservative",
    "ConfigApply": "config apply FOLDER/good.json --dry-run",
    "SchedulerConfigCheck": "scheduler check FOLDER/policies.json",
    "Gain": "gain",
    "Estimate": "estimate",
    "Bundle": "bundle -f FOLDER/bundle.tgz",
    "Version": "version",
    "ResetPrediction": "reset-prediction worker-1 --dry-run",
    "Uninstall": "uninstall --dry-run",
}
"""A command line for each kind but those of `MADE`, on the fleet of the samples."""


@pytest.fixture
def document(tmp_path, monkeypatch):
    """Return a function that returns the document of a kind."""
    monkeypatch.setattr("sys.argv", ["koordctl"])
    (tmp_path / "doubtful.json").write_text('{"enable": true, "midCPUThresholdPercent": 1000}', "utf-8")
    (tmp_path / "good.json").write_text('{"enable": true, "midCPUThresholdPercent": 90}', "utf-8")
    (tmp_path / "policies.json").write_text(json.dumps(POLICIES), "utf-8")
    with samples.fleet(tmp_path, monkeypatch) as run:

        def of(kind):
            if kind in MADE:
                return MADE[kind]()
            line = LINES[kind].replace("FOLDER", str(tmp_path))
            return json.loads(samples.output_of(run, f"koordctl {line} -o json"))

        yield of


def backtest():
    row = Row("n", "cpu", "n-sigma-v2", 3, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0)
    summary = CandidateSummary("cpu", "n-sigma-v2", 1, 3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0)
    found = report.Backtest(report.BacktestSettings(3600, 60, 2, {"seed": 1}), ["x"], [row], 0, [summary], None, "none")
    return json.loads(report.as_json(found))


def check():
    made = [checks.passed("AgentsReady", "all are ready"), checks.failed("SampleTooOld", "worker-3: 21 minutes")]
    return to_wire(results.answer(made, "koordinator-system", "error").data)


MADE = {"Backtest": backtest, "Check": check}


def validator(kind):
    """Return a validator by the published schema; other than that schema, it refuses unknown fields."""
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text("utf-8"))
    for each in (schema, *schema["$defs"].values()):
        if "properties" in each:
            assert each["required"] == list(each["properties"])
            each["additionalProperties"] = False
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("kind", KINDS)
def test_the_document_is_valid(kind, document):
    found = document(kind)
    assert (found["apiVersion"], found["kind"]) == ("koordctl/v1", kind)
    validator(kind).validate(found)


LAYERED = {
    "enable": True,
    "nodeConfigs": [
        {"name": "big", "nodeSelector": {"matchLabels": {"size": "big"}}, "midCPUThresholdPercent": 1000},
        {"name": "all", "nodeSelector": {}, "enable": False},
    ],
}
"""The first one is ignored for its percentage."""


@pytest.mark.parametrize(("text", "matching"), [(json.dumps(LAYERED), [0, 1]), ("{", [])])
def test_the_configuration_of_a_node_with_layers_and_of_a_refused_document_is_valid(text, matching):
    outcome = evaluation.evaluate(None, {"colocation-config": text}, exists=True)
    annotations = {"node.koordinator.sh/colocation-strategy": '{"midCPUThresholdPercent": "many"}'}
    found = explanation.explain("n", {"size": "big"}, annotations, outcome, source="a test", kept_in="")
    found = dataclasses.replace(found, spec_differs=("midColocationPolicy.midFloor",))
    document = to_wire(config.answer(found).data)
    validator("ConfigExplanation").validate(document)
    assert document["matchingNodeConfigs"] == matching


def test_a_missing_an_unknown_and_a_wrong_field_are_refused(document):
    valid = validator("NodeList")
    for change in ({"used": None}, {"reason": 3}, {"colour": "red"}):
        found = document("NodeList")
        found["nodes"][1] |= change
        assert not valid.is_valid(found), change
    found = document("NodeList")
    del found["nodes"][1]["reason"]
    assert not valid.is_valid(found)
    assert not valid.is_valid({**document("NodeList"), "apiVersion": "koordctl/v2"})


def test_every_document_has_a_schema_and_every_schema_a_document():
    for command in commands.ROOT.commands.values():
        for leaf in getattr(command, "commands", {"": command}).values():
            assert leaf.module
    assert set(AnswerDocument.__subclasses__()) == set(koordctl_documents.DOCUMENTS)
    assert {path.stem for path in pathlib.Path(SCHEMAS).iterdir()} == set(KINDS)

import io
import json

import pytest

from manager.__main__ import main
from manager.cli import check_config

MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: slo-controller-config}
data:
  colocation-config: |
    {"enable": true, "midCPUThresholdPercent": %s}
"""


@pytest.fixture
def check(tmp_path, capsys):
    def run(text):
        file = tmp_path / "config"
        file.write_text(text)
        return main(["check-config", str(file)]), capsys.readouterr()

    return run


@pytest.mark.parametrize("text", ['{"enable": true}', MANIFEST % 80, ""])
def test_a_good_document_is_said_to_be_good(check, text):
    code, said = check(text)
    assert (code, said.out) == (check_config.FINE, "the document is good\n")


@pytest.mark.parametrize("text", ['{"enable": true, "midCPUThresholdPercent": 150}', MANIFEST % 150])
def test_a_bad_one_is_refused_with_what_the_manager_would_say(check, text):
    code, said = check(text)
    assert code == check_config.REFUSED
    assert said.out == (
        "midCPUThresholdPercent: seen 150, want an integer, at least 0 and at most 100 "
        "(the document is refused, the last good configuration stays in force)\n"
    )


def test_broken_json_says_where(check):
    code, said = check('{"enable": true,\n "midFloor": }')
    assert code == check_config.REFUSED
    assert "line 2 column 14" in said.out


def test_advice_is_given_and_the_document_accepted(check):
    code, said = check('{"resourceDiffThreshold": 5, "cpuReclaimThresholdPercent": 60}')
    assert code == check_config.FINE
    assert "resourceDiffThreshold: seen 5.0, want at most 1" in said.out
    assert "no Batch resources: cpuReclaimThresholdPercent" in said.out


def test_a_manifest_of_something_else_is_no_document(check):
    code, said = check("kind: ConfigMap\ndata: {other: x}\n")
    assert code == check_config.UNREADABLE
    assert "found no ConfigMap with the key data.colocation-config" in said.err


def test_a_missing_file_is_said(capsys):
    assert main(["check-config", "/does/not/exist"]) == check_config.UNREADABLE
    assert "/does/not/exist" in capsys.readouterr().err


def test_a_dash_is_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO('{"enable": 1}'))
    assert main(["check-config", "-"]) == check_config.REFUSED
    assert "enable: seen 1, want true or false" in capsys.readouterr().out


def test_entries_that_overlap_are_a_warning(check):
    pool = {"nodeSelector": {"matchLabels": {"pool": "x"}}, "midFloor": "none"}
    code, said = check(json.dumps({"nodeConfigs": [{"name": "a", **pool}, {"name": "b", **pool}]}))
    assert code == check_config.FINE
    assert "want nodes outside nodeConfigs[0]: the first entry that matches wins (accepted, but" in said.out
    assert said.out.endswith("the document would be accepted\n")


def test_an_entry_that_is_left_out_is_refused_too(check):
    entry = {"name": "a", "nodeSelector": {"matchLabels": {"pool": "x"}}, "midFloor": "some"}
    code, said = check(json.dumps({"enable": True, "nodeConfigs": [entry]}))
    assert code == check_config.REFUSED
    assert 'nodeConfigs[0].midFloor: seen "some", want one of allocated, none (this layer is ignored' in said.out


@pytest.mark.parametrize("text", ["[" * 100_000, "since: 2026-02-30"])
def test_a_text_that_no_reader_of_yaml_survives_is_refused_like_any_other(check, text):
    code, said = check(text)
    assert code == check_config.REFUSED
    assert "want valid JSON" in said.out

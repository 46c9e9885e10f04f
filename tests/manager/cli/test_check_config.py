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
def test_accepts_a_valid_document(check, text):
    code, printed = check(text)
    assert (code, printed.out) == (check_config.FINE, "the document is good\n")


@pytest.mark.parametrize("text", ['{"enable": true, "midCPUThresholdPercent": 150}', MANIFEST % 150])
def test_refuses_an_invalid_document_with_the_managers_text(check, text):
    code, printed = check(text)
    assert code == check_config.REFUSED
    assert printed.out == (
        "midCPUThresholdPercent: seen 150, want an integer, at least 0 and at most 100 "
        "(the document is refused, the last good configuration stays in force)\n"
    )


def test_reports_the_place_of_a_json_error(check):
    code, printed = check('{"enable": true,\n "midFloor": }')
    assert code == check_config.REFUSED
    assert "line 2 column 14" in printed.out


def test_advice_is_given_and_the_document_accepted(check):
    code, printed = check('{"resourceDiffThreshold": 5, "cpuReclaimThresholdPercent": 60}')
    assert code == check_config.FINE
    assert "resourceDiffThreshold: seen 5.0, want at most 1" in printed.out
    assert "no Batch resources: cpuReclaimThresholdPercent" in printed.out


def test_refuses_a_manifest_of_another_kind(check):
    code, printed = check("kind: ConfigMap\ndata: {other: x}\n")
    assert code == check_config.UNREADABLE
    assert "found no ConfigMap with the key data.colocation-config" in printed.err


def test_reports_a_missing_file(capsys):
    assert main(["check-config", "/does/not/exist"]) == check_config.UNREADABLE
    assert "/does/not/exist" in capsys.readouterr().err


def test_reads_standard_input_for_a_dash(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO('{"enable": 1}'))
    assert main(["check-config", "-"]) == check_config.REFUSED
    assert "enable: seen 1, want true or false" in capsys.readouterr().out


def test_warns_of_overlapping_entries(check):
    pool = {"nodeSelector": {"matchLabels": {"pool": "x"}}, "midFloor": "none"}
    code, printed = check(json.dumps({"nodeConfigs": [{"name": "a", **pool}, {"name": "b", **pool}]}))
    assert code == check_config.FINE
    assert "want nodes outside nodeConfigs[0]: the first entry that matches wins (accepted, but" in printed.out
    assert printed.out.endswith("the document would be accepted\n")


def test_refuses_a_document_with_an_ignored_entry(check):
    entry = {"name": "a", "nodeSelector": {"matchLabels": {"pool": "x"}}, "midFloor": "some"}
    code, printed = check(json.dumps({"enable": True, "nodeConfigs": [entry]}))
    assert code == check_config.REFUSED
    assert 'nodeConfigs[0].midFloor: seen "some", want one of allocated, none (this layer is ignored' in printed.out


@pytest.mark.parametrize("text", ["[" * 100_000, "since: 2026-02-30"])
def test_refuses_a_text_that_breaks_the_yaml_parser(check, text):
    code, printed = check(text)
    assert code == check_config.REFUSED
    assert "want valid JSON" in printed.out

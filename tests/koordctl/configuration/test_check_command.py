"""`koordctl config check`, `config render` and `scheduler check`: files in, an answer and an exit code out."""

import dataclasses
import io
import json

import pytest
import yaml

from api_types.colocation import document, problem
from api_types.colocation.problem import Effect
from koordctl import __main__ as koordctl
from koordctl.cli.answer import ERROR_SIGN, FORMATS, WARNING_SIGN
from koordctl.configuration import check_command

GOOD = {"enable": True, "midCPUThresholdPercent": 60}


REFUSED = {"enable": True, "midCPUThresholdPercent": 600}


PROFILE = {"plugins": {"filter": {"enabled": [{"name": "LoadAwareScheduling"}]}}}


@pytest.fixture
def file(tmp_path):
    def write(document):
        path = tmp_path / "file"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)

    return write


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("command", "document", "code"),
    [
        ("config", GOOD, 0), ("config", REFUSED, 1), ("config", "{", 1), ("config", None, 2),
        ("scheduler", PROFILE, 0), ("scheduler", {"plugins": 3}, 1), ("scheduler", "a: [", 2), ("scheduler", None, 2),
    ],
)  # fmt: skip
def test_the_exit_code_is_the_same_for_every_format(command, document, code, format_, file, capsys):
    path = "/does/not/exist" if document is None else file(document)
    assert koordctl.main([command, "check", path, "-o", format_]) == code
    shown = capsys.readouterr()
    assert (path in shown.err) is (code == 2)
    if format_ == "json" and code < 2:
        assert json.loads(shown.out)["apiVersion"] == "koordctl/v1"


def test_a_problem_has_key_value_and_fix(file, capsys):
    koordctl.main(["config", "check", file(REFUSED)])
    out = capsys.readouterr().out
    assert "✘  midCPUThresholdPercent  600" in out
    assert "at most 100" in out


def test_a_config_map_manifest_is_a_document_too(file, capsys):
    manifest = {"kind": "ConfigMap", "data": {"colocation-config": json.dumps(REFUSED)}}
    assert koordctl.main(["config", "check", file(yaml.safe_dump(manifest))]) == 1


def test_the_name_of_a_rendered_preset_is_that_of_its_config_map(capsys):
    assert koordctl.main(["config", "render", "--preset", "balanced", "-o", "name"]) == 0
    assert capsys.readouterr().out == "configmap/slo-controller-config\n"


@pytest.mark.parametrize("preset", ["conservative", "balanced", "aggressive"])
@pytest.mark.parametrize("format_", ["yaml", "json"])
def test_a_rendered_preset_passes_the_check_and_names_its_place(preset, format_, file, capsys):
    assert koordctl.main(["config", "render", "--preset", preset, "-n", "mine", "-o", format_]) == 0
    text = capsys.readouterr().out
    rendered = yaml.safe_load(text)
    assert rendered["metadata"] == {"name": "slo-controller-config", "namespace": "mine"}
    assert json.loads(rendered["data"]["colocation-config"]) == {"enable": True, "preset": preset}
    assert koordctl.main(["config", "check", file(text)]) == 0


def test_the_effective_configuration_of_the_scheduler_is_in_the_document(file, capsys):
    koordctl.main(["scheduler", "check", file(PROFILE), "-o", "json"])
    (found,) = json.loads(capsys.readouterr().out)["documents"]
    assert found["valid"]
    assert found["effective"]["pluginConfig"]


@pytest.mark.parametrize("command", ["config", "scheduler"])
def test_aliases_that_expand_to_too_many_values_are_refused(command, file, capsys):
    text = "x0: &x0 [a]\n" + "".join(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 40))
    assert koordctl.main([command, "check", file(f"{text}data: {{colocation-config: *x39}}\n")]) == 2
    assert "want the values written out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ['{"kind": "ConfigMap"}', '{"data": {"other": "x"}}', "kind: Node\n---\nenable: true\n"]
)
def test_an_object_without_the_key_is_no_document(text, file, capsys):
    assert koordctl.main(["config", "check", file(text)]) == 2
    assert "found no ConfigMap with the key data.colocation-config" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[" * 100_000, "since: 2026-02-30"])
def test_a_text_that_breaks_the_yaml_parser_is_refused(text, file, capsys):
    assert koordctl.main(["config", "check", file(text)]) == 1
    assert "valid JSON" in capsys.readouterr().out


def test_standard_input_is_read_for_a_dash(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO('{"enable": 1}'))
    assert koordctl.main(["config", "check", "-"]) == 1
    assert "true or false" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("effect", "style", "is_valid"),
    [
        (Effect.ADVICE, "warning", True),
        (Effect.LAYER_IGNORED, "error", False),
        (Effect.DOCUMENT_REFUSED, "error", False),
    ],
)
def test_advice_is_a_warning_and_leaves_the_document_valid(effect, style, is_valid):
    reading = document.read_config(json.dumps({"enable": True}))
    given = problem.Problem(("enable",), "3", "true or false", effect)
    found = check_command.answer("x", dataclasses.replace(reading, problems=(given,)))
    (table,) = found.tables
    assert list(table.styles) == [style]
    assert table.rows[0][0] == (WARNING_SIGN if style == "warning" else ERROR_SIGN)
    assert (found.data.valid, found.exit_code) == (is_valid, 0 if is_valid else 1)

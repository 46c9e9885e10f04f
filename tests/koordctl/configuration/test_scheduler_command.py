"""Answer of `koordctl scheduler check`: a row for each problem and each document, and what is refused."""

import json

import pytest

from koordctl import __main__ as koordctl
from koordctl.configuration import scheduler_command
from scheduler_plugin.config.checking import CheckedDocument, DocumentResult

VALID, REFUSED = (
    DocumentResult([], ["advice one"], {"profiles": []}),
    DocumentResult(["wrong one", "wrong two"], [], None),
)
PROBLEM = DocumentResult(["but valid"], [], {})


def test_each_problem_advice_and_result_is_a_row_with_the_place_of_its_document():
    made = scheduler_command.answer(
        "file.yaml",
        [
            CheckedDocument("", {}, VALID),
            CheckedDocument("data[b]", {}, REFUSED),
            CheckedDocument("data[c]", {}, PROBLEM),
        ],
    )
    assert made.tables[0].rows == [
        ("!", "file.yaml", "advice", "advice one"),
        ("✔", "file.yaml", "valid", ""),
        ("✘", "data[b]", "error", "wrong one"),
        ("✘", "data[b]", "error", "wrong two"),
        ("✘", "data[b]", "refused", ""),
        ("✘", "data[c]", "error", "but valid"),
        ("✔", "data[c]", "valid", ""),
    ]
    assert made.tables[0].styles == ["warning", "", "error", "error", "error", "error", ""]
    assert [column.title for column in made.tables[0].columns] == ["", "DOCUMENT", "RESULT", "PROBLEM"]
    assert made.names == ["document/file.yaml", "document/data[b]", "document/data[c]"]
    assert made.data.file == "file.yaml"
    assert [(each.document, each.valid, each.effective) for each in made.data.documents] == [
        ("file.yaml", True, {"profiles": []}), ("data[b]", False, None), ("data[c]", True, {}),
    ]  # fmt: skip
    assert [(each.problems, each.advice) for each in made.data.documents] == [
        ([], ["advice one"]), (["wrong one", "wrong two"], []), (["but valid"], []),
    ]  # fmt: skip


def test_the_documents_of_a_configmap_have_their_keys(tmp_path, capsys):
    text = json.dumps({"plugins": {"filter": {"enabled": [{"name": "LoadAwareScheduling"}]}}})
    file = tmp_path / "map.json"
    file.write_text(json.dumps({"kind": "ConfigMap", "data": {"a": text, "b": '{"plugins": 3}'}}))
    assert koordctl.main(["scheduler", "check", str(file), "-o", "name"]) == 1
    assert capsys.readouterr().out == "document/data[a]\ndocument/data[b]\n"
    file.write_text(text)
    assert koordctl.main(["scheduler", "check", str(file), "-o", "name"]) == 0
    assert capsys.readouterr().out == f"document/{file}\n"


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"{", b""])
def test_a_file_without_a_configuration_is_wrong_usage(tmp_path, capsys, content):
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    assert koordctl.main(["scheduler", "check", str(file)]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"{file}: ")
    assert shown.out == ""

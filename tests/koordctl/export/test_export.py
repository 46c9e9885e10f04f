"""`koordctl export` writes files that the wheel has."""

import yaml

from koordctl import __main__ as koordctl
from koordctl.export import command as export
from tests.charts.chart import FOLDER
from tests.koordctl.parsing import parsed


def test_the_rules_are_those_of_the_chart(capsys):
    assert koordctl.main(["export", "rules"]) == 0
    assert capsys.readouterr().out == (FOLDER / "files" / "alert-rules.yaml").read_text()


def test_files_are_written_into_a_folder(tmp_path, capsys):
    assert koordctl.main(["export", "k9s", "-d", str(tmp_path / "new" / "folder")]) == 0
    file = tmp_path / "new" / "folder" / "k9s-plugins.yaml"
    assert file.read_text() == export.k9s_text()
    assert capsys.readouterr().out == f"wrote {file}\n"


def test_dashboards_are_the_json_files_of_the_package(tmp_path, monkeypatch, capsys):
    (tmp_path / "dashboards").mkdir()
    monkeypatch.setattr("koordctl.export.command.resources.files", lambda _package: tmp_path)
    assert koordctl.main(["export", "dashboards"]) == 3
    assert "has no dashboards" in capsys.readouterr().err
    for name in ("a.json", "b.json", "__init__.py"):
        (tmp_path / "dashboards" / name).write_text(f'"{name}"')
    assert koordctl.main(["export", "dashboards"]) == 2
    assert "want --folder" in capsys.readouterr().err
    assert koordctl.main(["export", "dashboards", "-d", str(tmp_path / "out")]) == 0
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["a.json", "b.json"]


def test_a_folder_that_cannot_be_written_is_wrong_usage(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert koordctl.main(["export", "rules", "-d", str(tmp_path / "file")]) == 2
    assert "want a folder to write to" in capsys.readouterr().err


def test_the_plugin_of_k9s_calls_commands_that_exist():
    for entry in yaml.safe_load(export.k9s_text())["plugins"].values():
        command = entry["args"][1].partition(" --context")[0]
        assert parsed(command.split()[1:])

import argparse

import pydantic
import pytest

from component_base import settings


class Example(settings.Settings):
    node_name: str = pydantic.Field(description="name of the node")
    probe_port: int = pydantic.Field(9316, ge=1, le=65535, description="port of probes")
    enable_debug: bool = pydantic.Field(False, description="serve debug pages")


def load(argv=(), environ=None):
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, Example, "EXAMPLE")
    return settings.from_sources(Example, parser.parse_args(argv), environ or {}, "EXAMPLE")


def test_a_flag_wins_over_the_environment_which_wins_over_the_file(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("node-name: from-file\nprobe-port: 1111\nenable-debug: true\n")
    loaded = load(
        ["--settings-file", str(file), "--probe-port", "3333"],
        {"EXAMPLE_PROBE_PORT": "2222", "EXAMPLE_NODE_NAME": "from-environment"},
    )
    assert loaded == Example(node_name="from-environment", probe_port=3333, enable_debug=True)


def test_all_problems_are_reported_at_once_with_their_origin(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("no-such: 1\n")
    with pytest.raises(settings.SettingsError) as caught:
        load(["--settings-file", str(file), "--probe-port", "70000"])
    text = "\n".join(caught.value.problems)
    assert "node-name is not set: give --node-name or EXAMPLE_NODE_NAME" in text
    assert "flag --probe-port is '70000': Input should be less than or equal to 65535" in text
    assert f"no-such in {file} is not a setting" in text


@pytest.mark.parametrize(
    ("content", "wanted"),
    [("[1]", "want a mapping"), ("at: 2026-13-01", "is not YAML"), (None, "cannot read the settings file")],
)
def test_names_an_unusable_file(tmp_path, content, wanted):
    file = tmp_path / "settings.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(settings.SettingsError, match=wanted) as caught:
        load([], {"EXAMPLE_SETTINGS_FILE": str(file), "EXAMPLE_NODE_NAME": "n"})
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unusable_file_hides_and_adds_no_other_problem():
    with pytest.raises(settings.SettingsError) as caught:
        load(["--settings-file", "/nowhere/file", "--probe-port", "70000"])
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "cannot read the settings file /nowhere/file",
        "flag --probe-port is '70000'",
    ]


def test_rejects_a_boolean_for_a_number(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("node-name: n\nprobe-port: true\n")
    with pytest.raises(settings.SettingsError, match=f"probe-port in {file} is True: .*want a number"):
        load(["--settings-file", str(file)])


def test_help_shows_default_and_variable(capsys):
    with pytest.raises(SystemExit):
        load(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "port of probes (default: 9316; environment: EXAMPLE_PROBE_PORT)" in shown
    assert "name of the node (required; environment: EXAMPLE_NODE_NAME)" in shown


@pytest.mark.parametrize(
    ("argv", "environ", "wanted"),
    [
        (["--enable-debug"], "false", True),
        (["--no-enable-debug"], "true", False),
        ([], "true", True),
        ([], None, False),
    ],
)
def test_a_switch_is_a_flag_and_its_negation(argv, environ, wanted):
    variables = {"EXAMPLE_NODE_NAME": "n"} | ({"EXAMPLE_ENABLE_DEBUG": environ} if environ else {})
    assert load(argv, variables).enable_debug is wanted


class Unusual(settings.Settings):
    node_name: str = "n"
    """name of the node"""
    folder: str = pydantic.Field(default_factory=lambda: "/made", description="folder of the files")

    @pydantic.model_validator(mode="after")
    def _one_of_two(self):
        if self.node_name == self.folder:
            raise ValueError("want two different texts")
        return self


def parser():
    made = argparse.ArgumentParser()
    settings.add_arguments(made, Unusual, "EXAMPLE")
    return made


def test_a_file_with_a_key_that_is_no_name_is_refused(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("node-name: m\n1: x\n")
    with pytest.raises(settings.SettingsError, match="contains dict, want a mapping of names"):
        settings.from_sources(Unusual, parser().parse_args(["--settings-file", str(file)]), {}, "EXAMPLE")


def test_help_shows_a_default_that_is_made_the_last_word_of_a_name_and_the_docstring(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert 'folder of the files (default: "/made"; environment: EXAMPLE_FOLDER)' in shown
    assert '--node-name NAME name of the node (default: "n"; environment: EXAMPLE_NODE_NAME)' in shown
    assert "--folder FOLDER" in shown


def test_a_problem_of_several_settings_together_is_one_of_the_settings():
    arguments = parser().parse_args(["--node-name", "same", "--folder", "same"])
    with pytest.raises(settings.SettingsError) as refused:
        settings.from_sources(Unusual, arguments, {}, "EXAMPLE")
    (problem,) = refused.value.problems
    assert problem.startswith("settings is {'node_name': 'same', 'folder': 'same'}: ")
    assert problem.endswith("want two different texts")


def test_a_wrong_setting_is_shown_without_the_password_of_an_address():
    with pytest.raises(settings.SettingsError) as raised:
        load(["--node-name", "n", "--probe-port", "http://me:hunter2@host"])
    assert raised.value.problems[0].startswith("flag --probe-port is 'http://host': ")

import argparse

import pydantic
import pytest

from component_base import settings


class Example(settings.Settings):
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
    settings.add_arguments(made, Example, "EXAMPLE")
    return made


def test_a_file_with_a_key_that_is_no_name_is_refused(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("node-name: m\n1: x\n")
    with pytest.raises(settings.SettingsError, match="contains dict, want a mapping of names"):
        settings.from_sources(Example, parser().parse_args(["--settings-file", str(file)]), {}, "EXAMPLE")


def test_help_shows_a_default_that_is_made_the_last_word_of_a_name_and_the_docstring(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert 'folder of the files (default: "/made"; environment: EXAMPLE_FOLDER)' in shown
    assert '--node-name NAME name of the node (default: "n"; environment: EXAMPLE_NODE_NAME)' in shown
    assert "--folder FOLDER" in shown


def test_settings_do_not_change():
    loaded = Example()
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        loaded.node_name = "other"
    assert loaded.node_name == "n"


def test_a_problem_of_several_settings_together_is_one_of_the_settings():
    arguments = parser().parse_args(["--node-name", "same", "--folder", "same"])
    with pytest.raises(settings.SettingsError) as refused:
        settings.from_sources(Example, arguments, {}, "EXAMPLE")
    (problem,) = refused.value.problems
    assert problem.startswith("settings is {'node_name': 'same', 'folder': 'same'}: ")
    assert problem.endswith("want two different texts")

"""The wheel: typed packages, and console scripts that exist."""

import importlib
import inspect
import pathlib
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
SCRIPTS = PROJECT["project"]["scripts"]
COMPLETION = "kubectl_complete-koord"
"""Called by kubectl with the words to complete, so it has no help."""


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_of_the_wheel_is_marked_as_typed(package):
    assert (ROOT / package / "py.typed").is_file()


def test_the_console_scripts_have_the_names_of_the_components():
    components = {"koordlet", "koord-manager", "koord-scheduler-plugin"}
    assert set(SCRIPTS) == {*components, "koordctl", "kubectl-koord", COMPLETION}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_console_script_calls_a_function_without_arguments(script):
    module, _, function = SCRIPTS[script].partition(":")
    assert module.split(".")[0] in PACKAGES
    inspect.signature(getattr(importlib.import_module(module), function)).bind()


@pytest.mark.parametrize("script", sorted({*SCRIPTS} - {COMPLETION}))
def test_a_console_script_prints_its_help(script, monkeypatch, capsys):
    module, _, function = SCRIPTS[script].partition(":")
    monkeypatch.setattr("sys.argv", [script, "--help"])
    with pytest.raises(SystemExit) as ended:
        sys.exit(getattr(importlib.import_module(module), function)())
    assert ended.value.code == 0
    assert ("backtest" if "koordctl" in module else "run") in capsys.readouterr().out

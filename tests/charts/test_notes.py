"""NOTES.txt: what `helm install` prints. Rendered through a copy of the chart that stores it in a ConfigMap."""

import shutil

import pytest
import yaml

from koordctl import __main__ as koordctl
from tests.charts import chart

pytestmark = pytest.mark.slow

PROBE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data:
  notes: {{ include (print $.Template.BasePath "/NOTES.txt") . | toJson }}
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    target = tmp_path_factory.mktemp("chart") / "koord-suite"
    shutil.copytree(chart.FOLDER, target)
    (target / "templates" / "probe.yaml").write_text(PROBE, encoding="utf-8")
    return target


@pytest.fixture
def notes(copied):
    def render(*values, namespace=chart.NAMESPACE):
        options = [word for value in values for word in ("--set", value)]
        where = ("--namespace", namespace, "--show-only", "templates/probe.yaml")
        result = chart.run_helm("template", "koord-suite", str(copied), *where, *options)
        assert result.returncode == 0, result.stderr
        return yaml.safe_load(result.stdout)["data"]["notes"]

    return render


@pytest.mark.parametrize("values", [(), ("crds.install=false",), ("koordlet.enabled=false", "manager.enabled=false")])
def test_they_have_at_most_15_lines(notes, values):
    assert len(notes(*values).strip().splitlines()) <= 15 - len(LOOKED_UP)


LOOKED_UP = ("has not accepted", "was kept and differs", "pod webhook")
"""Lines that take a cluster; e2e/cases/chart and e2e/cases/admission read them."""


def test_each_line_that_takes_a_cluster_is_one_line():
    text = (chart.FOLDER / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    for words in LOOKED_UP:
        (line,) = (line for line in text.splitlines() if words in line)
        assert line.startswith(("NOTE: ", "WARNING: "))


def test_they_end_with_three_commands_of_koordctl_for_this_namespace(notes, capsys):
    def commands(text):
        return [line.strip() for line in text.splitlines() if line.startswith("  koordctl ")]

    expected = ["koordctl check --wait 2m", "koordctl top nodes", "koordctl config diff --preset balanced"]
    assert commands(notes()) == expected
    check, top, diff = expected
    elsewhere = [f"{check} --namespace elsewhere", top, f"{diff} --suite-namespace elsewhere"]
    assert commands(notes(namespace="elsewhere")) == elsewhere
    for line in elsewhere:
        assert koordctl.main([*line.split()[1:], "--help"]) == 0, "a command does not exist"
        flags = {word for word in line.split() if word.startswith("--")}
        assert flags <= set(capsys.readouterr().out.replace(",", " ").split()), "a flag does not exist"


@pytest.mark.parametrize(("value", "word"), [("false", "OFF"), ("true", "ON")])
def test_they_name_the_state_of_colocation(notes, value, word):
    assert f"Colocation is {word}." in notes(f"colocationConfig.enable={value}")

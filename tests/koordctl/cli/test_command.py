"""The commands that read a cluster: exit codes, formats, rights, and text that tenants write."""

import csv
import gc
import io
import json
import re

import pytest
import yaml

from api_types.kubernetes import pods
from fleet.pod_state import PodState
from koordctl import __main__ as koordctl
from koordctl.cli import answer, output
from koordctl.cli.command import ProgressLine
from koordctl.cli.version_command import Version
from tests import factories
from tests.fleet import cluster
from tests.koordctl.serving import METRICS, SUITE, healthy, kubeconfig_of

pytestmark = pytest.mark.slow

COMMANDS = (("status",), ("top", "nodes"), ("top", "pods"), ("top", "namespaces"))
HOSTILE = "\x1b]0;owned\x07\x1b[2J[red]x[/red]\u202e\x9b31m" + "A" * 5_000


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_json_and_yaml_are_one_and_the_same_document(command, tmp_path, capsys):
    with kubeconfig_of(tmp_path, **healthy()) as file:
        koordctl.main([*command, "--kubeconfig", str(file), "-o", "json"])
        in_json = json.loads(capsys.readouterr().out)
        koordctl.main([*command, "--kubeconfig", str(file), "-o", "yaml"])
        in_yaml = yaml.safe_load(capsys.readouterr().out)
    assert in_json["apiVersion"] == in_yaml["apiVersion"] == "koordctl/v1"
    assert in_json.keys() == in_yaml.keys()


def test_top_nodes_shows_usage_requests_peak_and_mid(tmp_path, capsys):
    with kubeconfig_of(tmp_path, **healthy()) as file:
        assert koordctl.main(["top", "nodes", "--kubeconfig", str(file)]) == 0
    head, row, _legend = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["NODE", "OF", "CPU", "CPU", "USED"]
    assert row.split()[:9] == ["worker-1", "██████P▓▓▓░░░░░░░░··", "16.0", "48%", "92%", "35%", "9.4", "7.2", "41%"]


def test_without_the_right_for_nodes_the_pods_of_a_namespace_are_shown(tmp_path, capsys):
    with kubeconfig_of(tmp_path, pods=cluster.listing(cluster.pod())) as file:
        assert koordctl.main(["top", "pods", "-n", "shop", "--kubeconfig", str(file)]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].split() == ["shop", "web-0", "worker-1", "prod", "4.0", "-", "-", "8.0", "-"]
    assert shown.err.startswith("not read: nodemetrics: ")


@pytest.mark.parametrize("format_", answer.FORMATS)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_text_of_a_tenant_controls_no_terminal(command, format_, tmp_path, capsys):
    condition = {"type": "SourceDegraded", "status": "True", "reason": "NoData", "message": HOSTILE}
    hostile = healthy(
        nodes=cluster.listing(cluster.node(annotations=cluster.mid_status(reason=HOSTILE))),
        metrics=cluster.listing(cluster.metric(conditions=[condition], prediction={"predictor": HOSTILE})),
        pods=cluster.listing(cluster.pod(name=HOSTILE, namespace="=cmd()")),
    )
    with kubeconfig_of(tmp_path, **hostile) as file:
        koordctl.main([*command, "--kubeconfig", str(file), "-o", format_])
    shown = capsys.readouterr()
    assert all(each.isprintable() or each == "\n" for each in shown.out + shown.err)
    if format_ == "csv":
        assert not any(cell[:1] == "=" for row in csv.reader(io.StringIO(shown.out)) for cell in row)
    if command != ("top", "nodes") and command[0] == "top":
        assert format_ not in ("table", "wide") or "=cmd()" in shown.out


def test_koordinators_reports_and_a_node_without_a_report(tmp_path, capsys):
    routes = healthy(
        nodes=cluster.listing(cluster.node(), cluster.node("worker-2", mid_cpu=None)),
        metrics=cluster.listing(factories.upstream_node_metric()),
    )
    with kubeconfig_of(tmp_path, **routes) as file:
        assert koordctl.main(["top", "nodes", "--kubeconfig", str(file), "--sort", "used:desc"]) == 0
    first, second, _legend = capsys.readouterr().out.splitlines()[1:]
    assert first.split()[:5] == ["worker-1", "█P··················", "16.0", "9%", "-"]
    assert second.split()[:5] == ["worker-2", "-", "16.0", "-", "-"]
    assert second.endswith("NodeMetricMissing")


def test_status_names_what_is_wrong_and_the_next_command(tmp_path, capsys):
    routes = healthy(agent=cluster.installed("koordlet", ready=1), lease={"spec": {}})
    with kubeconfig_of(tmp_path, **routes) as file:
        assert koordctl.main(["status", "--kubeconfig", str(file)]) == 0
    shown = capsys.readouterr().out
    assert re.match(r"http://127\.0\.0\.1:\d+, namespace koordinator-system, \d\d:\d\d:\d\d UTC\n", shown)
    assert "AgentsReady" in shown
    assert "Leader" in shown
    assert "ready on 1 of 2 nodes" in shown


class Terminal(io.StringIO):
    def __init__(self, encoding):
        super().__init__()
        self._encoding = encoding

    encoding = property(lambda self: self._encoding)

    def isatty(self):
        return True


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_terminal_gets_lines_of_its_width(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    table = answer.Table([answer.Column("A"), answer.Column("B")], [("x" * 100, "y" * 100)], ["error"])
    terminal = Terminal("utf-8")
    output.show(answer.Answer(Version("", {}), [table]), "table", to=terminal)
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert "[31m" not in terminal.getvalue()


def test_mid_resources_that_no_node_has_are_not_known_instead_of_0(tmp_path, capsys):
    with kubeconfig_of(tmp_path, **healthy(nodes=cluster.listing(cluster.node(mid_cpu=None)))) as file:
        koordctl.main(["status", "--kubeconfig", str(file), "-o", "json"])
    assert json.loads(capsys.readouterr().out)["totals"]["mid"] == {"cpuMillis": None, "memoryBytes": None}


def test_top_namespaces_shows_what_is_held_beside_the_quota(tmp_path, capsys):
    mid = {"kubernetes.io/mid-cpu": "1000"}
    listed = [cluster.pod("a", priority=7000, requests=mid), cluster.pod("b", node="", priority=7000, requests=mid)]
    listed.append(cluster.pod("c", priority=0, requests={"kubernetes.io/mid-cpu": "500"}))
    routes = healthy(namespaces=cluster.listing(), pods=cluster.listing(*listed))
    with kubeconfig_of(tmp_path, **routes) as file:
        words = ["top", "namespaces", "--kubeconfig", str(file)]
        assert koordctl.main([*words, "--sort", "held:desc", "--above", "held=1"]) == 0
        head, row = capsys.readouterr().out.splitlines()
        assert koordctl.main([*words, "-o", "json"]) == 0
    assert head.index("MID REQ") < head.index("MID HELD") < head.index("MID QUOTA")
    assert row.split()[4:6] == ["2.5", "1.5"]
    (found,) = json.loads(capsys.readouterr().out)["namespaces"]
    assert (found["midRequests"]["cpuMillis"], found["midHeld"]["cpuMillis"]) == (2500, 1500)


PLUGINS = """
profiles:
- pluginConfig:
  - {name: LoadAwareScheduling, args: {}}
  - {name: MidGuard, args: {defaultQuota: {cpu: "8", memory: 16Gi}}}
"""


@pytest.mark.parametrize(
    ("annotation", "shown", "amounts", "is_default"),
    [
        (None, "8.0*", (8_000, 16 * 2**30), True),
        ('{"cpu": "20"}', "20.0", (20_000, 16 * 2**30), False),  # an absent resource has the default
        ("{", "malformed", (0, 0), False),
    ],
)
@pytest.mark.parametrize("name", ["koord-scheduler", "koord-extender"])
def test_top_namespaces_shows_the_default_quota_as_one(name, annotation, shown, amounts, is_default, tmp_path, capsys):
    annotations = {} if annotation is None else {"koordinator.sh/mid-quota": annotation}
    namespace = {"kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}}
    path = f"/api/v1/namespaces/{SUITE}/configmaps/{name}"
    config = {"metadata": {"name": name}, "data": {"scheduler-plugin.yaml": PLUGINS}}
    routes = healthy(namespaces=cluster.listing(namespace)) | {path: config}
    with kubeconfig_of(tmp_path, **routes) as file:
        assert koordctl.main(["top", "namespaces", "--kubeconfig", str(file)]) == 0
        table = capsys.readouterr()
        assert koordctl.main(["top", "namespaces", "--kubeconfig", str(file), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["namespaces"]
    assert table.out.splitlines()[1].split()[6] == shown
    assert ("* the default quota" in table.out) == is_default
    assert table.err == ""
    assert found["midQuotaIsDefault"] == is_default
    assert tuple(found["midQuota"].values()) == amounts


@pytest.mark.parametrize("format_", ["table", "wide"])
def test_top_nodes_draws_the_threshold_of_the_scheduler(format_, tmp_path, capsys):
    path = f"/api/v1/namespaces/{SUITE}/configmaps/koord-scheduler"
    config = {"metadata": {"name": "koord-scheduler"}, "data": {"scheduler-plugin.yaml": PLUGINS}}
    with kubeconfig_of(tmp_path, **healthy(), **{path: config}) as file:
        assert koordctl.main(["top", "nodes", "--kubeconfig", str(file), "-o", format_]) == 0
    shown = capsys.readouterr()
    _head, row, _legend, limit = shown.out.splitlines()
    assert row.split()[1] == "██████P▓▓▓░░░│░░░░··"
    assert "│ no pod is placed on a node above 65% " in limit


def test_without_the_right_for_the_configuration_top_nodes_draws_no_threshold_and_says_nothing(tmp_path, capsys):
    path = f"/api/v1/namespaces/{SUITE}/configmaps/koord-scheduler"
    with kubeconfig_of(tmp_path, **healthy(), **{path: (cluster.forbidden("it"), 403)}) as file:
        assert koordctl.main(["top", "nodes", "--kubeconfig", str(file)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "│" not in shown.out


def test_without_the_right_for_the_configuration_the_default_quota_is_not_known(tmp_path, capsys):
    path = f"/api/v1/namespaces/{SUITE}/configmaps/koord-scheduler"
    routes = healthy(namespaces=cluster.listing()) | {path: (cluster.forbidden("it"), 403)}
    with kubeconfig_of(tmp_path, **routes) as file:
        assert koordctl.main(["top", "namespaces", "--kubeconfig", str(file)]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].split()[6] == "-"
    assert shown.err.startswith("not read: configmaps/koord-scheduler: ")


def pages_of_pods(count, size):
    """Return the pages of a list of Mid pods in two namespaces, and of reports that have their usage."""
    requests = {"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"}
    listed = [cluster.pod(f"mid-{number}", f"team-{number % 2}", "worker-1", 7000, requests) for number in range(count)]
    used = [cluster.usage_of(f"mid-{number}", f"team-{number % 2}", "500m", "1Gi") for number in range(count)]
    starts = range(0, count, size)
    return [
        cluster.listing(*listed[start : start + size], more=str(start + size) if start != starts[-1] else "")
        for start in starts
    ], cluster.listing(cluster.metric(pods=used))


@pytest.mark.parametrize("words", [["top", "namespaces"], ["gain"]], ids=" ".join)
def test_sums_of_namespaces_hold_no_pod_of_a_page_that_is_read(words, tmp_path, capsys, monkeypatch):
    held = []

    def report(_progress, what, _count):
        if what == "pods":
            found = (each for each in gc.get_objects() if isinstance(each, (pods.Pod, PodState)))
            held.append(sum(1 for _ in found))

    monkeypatch.setattr(ProgressLine, "report", report)
    before = sum(isinstance(each, (pods.Pod, PodState)) for each in gc.get_objects())
    listed, metrics = pages_of_pods(60, 10)
    with kubeconfig_of(tmp_path, **healthy(pods=listed, metrics=metrics)) as file:
        assert koordctl.main([*words, "--kubeconfig", str(file), "-o", "json"]) == 0
    shown = {each["name"]: each for each in json.loads(capsys.readouterr().out)["namespaces"]}
    assert shown.keys() == {"team-0", "team-1"}
    used = shown["team-0"].get("midUsed") or shown["team-0"]["used"]
    assert used in ({"cpuMillis": 15_000, "memoryBytes": 30 * 2**30}, {"cpu": 15.0, "memoryGiB": 30.0})
    assert len(held) == 6
    assert max(held) - before <= 3  # the newest one: as it was listed, what is kept of it, and its state


def test_top_namespaces_sums_the_pods_that_the_flags_choose(tmp_path, capsys):
    routes = healthy() | {f"{METRICS}/worker-1": cluster.metric(pods=[cluster.usage_of()])}
    words = ["top", "namespaces", "-n", "shop", "--node", "worker-1", "-l", "app=web", "-o", "json"]
    with kubeconfig_of(tmp_path, **routes) as file:
        assert koordctl.main([*words, "--kubeconfig", str(file)]) == 0
    (found,) = json.loads(capsys.readouterr().out)["namespaces"]
    assert (found["name"], found["pods"], found["prodUsed"]["cpuMillis"]) == ("shop", 1, 600)

"""Tables and bars of the commands: numbers at the right of their columns, a leader beside the manager only."""

import io
import json
import re

import pytest

from fleet import wire
from fleet.node_state import Amounts, NodeState
from fleet.pod_state import NamespaceState, PodState
from fleet.snapshot import Installation
from koordctl import __main__ as koordctl
from koordctl.cli import answer, output, status, top
from koordctl.cli.version_command import Version
from koordctl.configuration import diff
from tests.fleet import cluster
from tests.koordctl.serving import METRICS, healthy, kubeconfig_of

SHORT, LONG = Amounts(100, 2**29), Amounts(12_345_600, 2**43)
AMOUNTS = ("allocatable", "used", "prod_requests", "prod_peak", "mid", "mid_requests")


def node(name, amounts, age):
    given = dict.fromkeys(AMOUNTS, amounts) | {"allocatable": Amounts(100, 2**29)}
    return NodeState(name, **given, sample_age_seconds=age, predictor=f"of-{name}", reason=f"Of{name}")


def spans(line):
    return [each.span() for each in re.finditer(r"\S+(?: \S+)*", line)]


def text_of(made, form, *, headers=True):
    out = io.StringIO()
    output.show(made, form, to=out, headers=headers)
    return out.getvalue()


TOP = {
    "nodes": (
        top.nodes([node("a", SHORT, 1.0), node("a-longer-name", LONG, 3_600 * 30)]),
        {"NODE", "OF CPU", "PREDICTOR", "REASON"},
    ),
    "pods": (
        top.pods(
            [
                PodState("shop", "a", "n1", "mid", "Running", SHORT, SHORT),
                PodState("a-longer-name", "another-name", "another-node", "prod-or-more", "Pending-it-is", LONG, LONG),
            ]
        ),
        {"NAMESPACE", "POD", "NODE", "BAND", "PHASE"},
    ),
    "namespaces": (
        top.namespaces(
            [
                NamespaceState("a", 1, 1, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT),
                NamespaceState("a-longer-name", *[123_456_789] * 2, LONG, LONG, LONG, LONG, LONG, LONG, LONG),
            ]
        ),
        {"NAMESPACE"},
    ),
}


@pytest.mark.parametrize("what", TOP)
def test_numbers_of_top_are_at_the_right_of_their_columns_and_names_at_the_left(what):
    made, names = TOP[what]
    head, *lines = text_of(made, "wide").splitlines()[:3]
    titles = re.findall(r"\S+(?: \S+)*", head)
    assert titles == [column.title for column in made.tables[0].columns]
    for title, *cells in zip(titles, spans(head), *map(spans, lines), strict=True):
        starts, ends = zip(*cells, strict=True)
        assert len(set(starts if title in names else ends)) == 1, title


@pytest.mark.parametrize("what", TOP)
def test_columns_for_a_wide_table_are_in_no_other(what):
    made, _ = TOP[what]
    left_out = {"nodes": {"MID MEMORY", "PREDICTOR"}, "pods": {"PHASE"}}.get(what, set())
    wide, narrow = (set(re.split(r"\s{2,}", text_of(made, form).splitlines()[0])) for form in ("wide", "table"))
    assert wide - narrow == left_out


@pytest.mark.parametrize(
    ("amount", "whole", "length"),
    [(1, 4, 2), (0.5, 1, 4), (2, 1, 8), (0.001, 100, 1), (0.25, 0.5, 4), (0, 4, 0), (-1, 4, 0), (1, 0, 0), (1, -1, 0)],
)
def test_a_bar_is_as_long_as_its_share_of_the_whole(amount, whole, length):
    assert answer.bar(amount, whole, 8) == "█" * length


@pytest.mark.parametrize(
    ("of", "given", "shown"),
    [
        (answer.cores, 1_500, "1.5"), (answer.cores, 0, "0.0"), (answer.cores, None, "-"),
        (answer.gib, 3 * 2**29, "1.5"), (answer.gib, 0, "0.0"), (answer.gib, None, "-"),
        (answer.share, 0.0, "0%"), (answer.share, 33.4, "33%"), (answer.share, None, "-"),
        (answer.age, 0.0, "0s"), (answer.age, 7_200.0, "2h"), (answer.age, None, "-"),
    ],
)  # fmt: skip
def test_an_amount_of_0_is_shown_and_an_unknown_one_is_a_dash(of, given, shown):
    assert of(given) == shown


def test_json_is_indented_by_two_spaces():
    lines = text_of(answer.Answer(Version("0.2.0", {"koordlet": "0.1.0"})), "json").splitlines()
    assert '  "client": "0.2.0",' in lines
    assert '    "koordlet": "0.1.0"' in lines
    assert json.loads("".join(lines))["parts"] == {"koordlet": "0.1.0"}


def workload(wanted, ready):
    counts = {"ready_replicas": ready, "replicas": wanted, "number_ready": ready, "desired_number_scheduled": wanted}
    return wire.Workload(spec=wire.WorkloadSpec(replicas=wanted), status=wire.WorkloadStatus(**counts))


@pytest.mark.parametrize(
    ("leader", "ready", "state"),
    [
        ("manager-1", 2, "leader manager-1"),
        ("manager-1", 1, "not all ready; leader manager-1"),
        ("", 2, ""),
        ("", 1, "not all ready"),
    ],
)
def test_the_leader_is_beside_the_manager_only(leader, ready, state):
    parts = {"koordlet": workload(3, 3), "koord-manager": workload(2, ready), "koord-scheduler": workload(2, 2)}
    rows = status._parts(Installation("koordinator-system", workloads=parts, leader=leader)).rows
    assert {name: found for _, _, name, _, _, found in rows} == {
        "koordlet": "", "koord-manager": state, "koord-scheduler": "",
    }  # fmt: skip


def test_the_csv_of_an_explained_node_has_no_bars(tmp_path, capsys):
    explained = cluster.node(annotations=cluster.mid_status(allocatable=15_500, capacity=16_000, peakProd=5_550))
    objects = {"/api/v1/nodes/worker-1": explained, f"{METRICS}/worker-1": cluster.metric()}
    shown = {}
    with kubeconfig_of(tmp_path, **healthy(nodes=cluster.listing(explained)) | objects) as file:
        for form in ("table", "csv"):
            assert koordctl.main(["explain", "node", "worker-1", "--kubeconfig", str(file), "-o", form]) == 0
            shown[form] = capsys.readouterr().out
    assert "█" in shown["table"]
    assert "█" not in shown["csv"]
    assert shown["csv"].splitlines()[0] == "RESOURCE,TERM,AMOUNT,FROM"


@pytest.mark.parametrize(("columns", "titles"), [(41, ["NAME", "COUNT", "OF CPU"]), (40, ["NAME", "COUNT"])])
def test_a_terminal_that_is_too_narrow_shows_all_but_the_bars_and_their_legend(columns, titles, monkeypatch):
    bars = answer.Column("OF CPU", is_drawing=True, optional=True)
    table = answer.Table((answer.Column("NAME"), answer.Column("COUNT", right=True), bars), [("n" * 10, "1", "█" * 20)])
    made = answer.Answer(Version("0.2.0", {}), [table], legend="█ used")
    monkeypatch.setenv("COLUMNS", str(columns))  # 10, 5 and 20 characters, and two after each column
    to = io.StringIO()
    to.isatty = lambda: True
    output.show(made, "table", to=to)
    head, _, *end = re.sub(r"\x1b\[[0-9;]*m", "", to.getvalue()).splitlines()
    assert re.split(r"\s{2,}", head.strip()) == titles
    assert end == (["█ used"] if "OF CPU" in titles else [])


def test_numbers_of_a_difference_are_at_the_right_and_names_at_the_left():
    columns = diff._node_table([]).columns
    assert [column.title for column in columns if not column.right] == ["NODE", "REASON", ""]
    assert [column.title for column in columns if column.wide] == ["PUBLISHED"]

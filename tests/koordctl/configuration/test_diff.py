"""`koordctl config diff`: totals, nodes that lose, changed keys, what the numbers do not contain, exit codes."""

import datetime as dt
import json

import pytest

from api_types.colocation import presets
from component_base import clock
from fleet.node_state import UNKNOWN, Amounts
from fleet.what_if import NodeChange, WhatIfOutcome
from koordctl import __main__ as koordctl
from koordctl.configuration import diff
from koordctl.configuration.diff import Comparison
from manager.slo_config.explanation import Value
from tests import factories
from tests.fleet import cluster
from tests.koordctl.serving import healthy, kubeconfig_of

NOW = dt.datetime.fromisoformat(cluster.NOW)


ENABLED = {"enable": True}


def config(document):
    return {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": json.dumps(document)}}


def fleet(*metrics, nodes=None, document=ENABLED):
    seen = metrics or (cluster.metric(),)
    listed = nodes or [cluster.node(name=each["metadata"]["name"], annotations=cluster.mid_status()) for each in seen]
    return healthy(nodes=cluster.listing(*listed), metrics=cluster.listing(*seen), config=config(document),
                   stored={"metadata": {}})  # fmt: skip


@pytest.fixture
def compare(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(clock, "utc_now", lambda: NOW)

    def run(wanted, *words, routes=None):
        file = tmp_path / "wanted.json"
        file.write_text(wanted if isinstance(wanted, str) else json.dumps(wanted))
        with kubeconfig_of(tmp_path, **(routes or fleet())) as kubeconfig:
            code = koordctl.main(["config", "diff", str(file), "--kubeconfig", str(kubeconfig), *words])
        return code, *capsys.readouterr()

    return run


def test_the_same_document_changes_nothing_and_says_so(compare):
    for wanted in (ENABLED, {"enable": True, "midCPUThresholdPercent": 100}):
        code, out, err = compare(wanted)
        assert (code, err) == (0, "")
        assert out.endswith("wanted.json: nothing would change\n")


def test_the_numbers_are_those_of_the_formula(compare):
    # min(14.75 - 5.55, 40 % of 16) + 30 % of (16 - 14.75) cores; min(40 - 30, 64) + 30 % of (64 - 40) GiB
    code, out, _ = compare({**ENABLED, "midCPUThresholdPercent": 40, "midUnallocatedPercent": 30}, "-o", "json")
    assert code == 1
    found = json.loads(out)
    (node,) = found["nodes"]
    assert node["before"] == {"cpuMillis": 9_200, "memoryBytes": 10 * 2**30}
    assert node["after"]["cpuMillis"] == 7_200  # 6.775 are calculated, and 7.2 are requested by Mid pods
    assert node["after"]["memoryBytes"] == 10 * 2**30 + 24 * 2**30 * 30 // 100
    assert [each["key"] for each in found["keys"]] == ["midCPUThresholdPercent", "midUnallocatedPercent"]


def test_nodes_that_lose_are_shown_whatever_the_limit(compare):
    metrics = [cluster.metric(f"worker-{number}") for number in range(4)]
    nodes = [cluster.node(f"worker-{number}", annotations=cluster.mid_status(),
                          labels={"pool": "a" if number else "b"}) for number in range(4)]  # fmt: skip
    wanted = {
        **ENABLED, "midUnallocatedPercent": 100,
        "nodeConfigs": [{"name": "b", "nodeSelector": {"matchLabels": {"pool": "b"}}, "midCPUThresholdPercent": 0,
                         "midUnallocatedPercent": 0, "midFloor": "none"}],
    }  # fmt: skip
    code, out, _ = compare(wanted, "--nodes", "2", routes=fleet(*metrics, nodes=nodes))
    assert code == 1
    assert "4 of 4 nodes change, 1 of them have less" in out
    assert "! less than the Mid pods request on worker-0: no new Mid pod fits there" in out
    rows = [line for line in out.splitlines() if line.startswith("worker-")]
    assert rows[0].startswith("worker-0 ")
    assert rows[0].endswith("! less than requested")
    assert len(rows) == 2
    more = out.find("and 2 more nodes that only gain (--nodes 0 shows all)")
    assert 0 < more < out.find("the numbers are of the present")


def test_colocation_off_takes_all_but_the_floor(compare):
    code, out, _ = compare({"enable": False}, "-o", "json")
    (node,) = json.loads(out)["nodes"]
    assert (code, node["after"]["cpuMillis"], node["reason"]) == (1, 7_200, "ColocationDisabled")


def test_a_frozen_cluster_has_room_for_no_new_pod(compare):
    _, out, _ = compare({**ENABLED, "midEmergency": "freeze"}, "-o", "json")
    assert json.loads(out)["nodes"][0]["after"]["cpuMillis"] == 7_200


@pytest.mark.parametrize(
    ("policy", "gate"),
    [
        ({"nodePredictPolicy": {"predictor": "calibrated"}}, "midEviction.mode is not evict"),
        ({"nodePredictPolicy": {"predictor": "calibrated"}, "midEviction": {"mode": "evict"}}, "1 of them evict, if"),
        ({"nodePredictPolicy": {"predictor": "n-sigma-v2", "n": 3}}, None),
    ],
)
def test_another_predictor_is_not_in_the_numbers_and_that_is_stated(compare, policy, gate):
    code, out, _ = compare({**ENABLED, **policy})
    assert code == 1
    assert "nodePredictPolicy changes on 1 nodes: their numbers have the peak of the present prediction" in out
    assert ("the take-back gate holds on 1 nodes" in out) is (gate is not None)
    assert gate is None or gate in out
    assert "2 of 31 measured pods are cold" in out


def test_a_node_whose_requests_are_not_known_is_left_out_of_the_sums(compare):
    policy = {"enable": True}
    upstream = factories.upstream_node_metric(status={"updateTime": "2026-11-21T10:00:20Z"}, spec=policy)
    metrics = (upstream, cluster.metric("worker-2"))
    routes = fleet(*metrics, nodes=[cluster.node(), cluster.node("worker-2")])
    _, out, _ = compare({**ENABLED, "midUnallocatedPercent": 10}, routes=routes)
    assert "! left out, because requests or the report are not known: worker-1" in out
    assert "1 of 2 nodes change" in out
    assert "Mid CPU 9.2 -> 9.3 cores (+1 %)" in out


def test_a_node_whose_report_is_too_old_keeps_nothing_on_either_side(compare):
    old = cluster.metric(time="2026-11-21T08:00:00Z")
    code, out, _ = compare({**ENABLED, "midCPUThresholdPercent": 10}, routes=fleet(old))
    assert code == 1
    assert "0 of 1 nodes change" in out


def test_a_report_whose_node_was_not_listed_is_left_out_and_the_next_one_is_compared(compare):
    pages = [
        cluster.listing(cluster.node(annotations=cluster.mid_status()), more="next"),
        (cluster.forbidden("it"), 403),
    ]
    metrics = cluster.listing(cluster.metric("another"), cluster.metric())
    _, out, _ = compare({"enable": False}, "-o", "json", routes=fleet() | {"nodes": pages, "metrics": metrics})
    assert [node["name"] for node in json.loads(out)["nodes"]] == ["worker-1"]


def test_a_present_document_that_is_invalid_counts_as_the_defaults(compare):
    routes = fleet() | {"config": {"metadata": {}, "data": {"colocation-config": "{"}}}
    _, out, _ = compare({"enable": True, "midUnallocatedPercent": 7}, "-o", "json", routes=routes)
    found = {each["key"]: each["before"] for each in json.loads(out)["keys"]}
    assert found == {"enable": False, "midUnallocatedPercent": 0}


def test_a_preset_is_compared_as_render_prints_it(compare, tmp_path, capsys):
    with kubeconfig_of(tmp_path, **fleet(document={**ENABLED, "midUnallocatedPercent": 50})) as file:
        assert koordctl.main(["config", "diff", "--preset", "balanced", "--kubeconfig", str(file)]) == 1
    out = capsys.readouterr().out
    assert "preset balanced:" in out
    assert "midUnallocatedPercent" in out
    assert f"risk: {presets.EXPECTATIONS['balanced'].risk}\n" in out
    assert out.endswith("to apply it: koordctl config render --preset balanced | kubectl apply -f -\n")


@pytest.mark.parametrize(("wanted", "text"), [("{", "want valid JSON"), ('{"enable": 3}', "want true or false")])
def test_a_refused_document_is_wrong_input(compare, wanted, text):
    code, out, err = compare(wanted)
    assert (code, out) == (2, "")
    assert text in err


def test_a_missing_file_and_no_file_are_wrong_usage(compare):
    assert compare(ENABLED, "--preset", "balanced")[0] == 2
    for words in ([], ["/does/not/exist"]):
        assert koordctl.main(["config", "diff", *words]) == 2


def test_without_the_right_for_the_present_document_nothing_is_compared(compare):
    routes = fleet()
    del routes["config"]
    code, out, err = compare(ENABLED, routes=routes)
    assert (code, out) == (3, "")
    assert "slo-controller-config" in err


@pytest.mark.parametrize("also", ["stored", "metrics"])
def test_without_the_right_for_nodes_nothing_is_compared_whatever_else_is_missing(compare, also):
    routes = fleet()
    del routes["nodes"], routes[also]
    code, out, err = compare({"enable": False}, routes=routes)
    assert (code, out) == (3, "")
    assert "nodes" in err


def test_without_a_node_the_keys_are_compared_whatever_else_is_missing(compare):
    routes = fleet() | {"nodes": cluster.listing(), "metrics": None}
    code, out, err = compare({"enable": False}, routes=routes)
    assert code == 1
    assert "0 of 0 nodes change" in out
    assert "nodemetrics" in err


@pytest.mark.parametrize("most", ["0", "-1"])
def test_all_nodes_are_shown_on_demand(compare, most):
    metrics = [cluster.metric(f"worker-{number}") for number in range(3)]
    _, out, _ = compare({**ENABLED, "midUnallocatedPercent": 100}, "--nodes", most, routes=fleet(*metrics))
    assert len([line for line in out.splitlines() if line.startswith("worker-")]) == 3
    assert "more nodes" not in out


GIB = 2**30


def node(name, before=(1_000, GIB), after=(2_000, 2 * GIB), asked=(0, 0), **more):
    outcomes = (WhatIfOutcome(Amounts(*each), "Published") for each in (before, after))
    known = {"predicts_otherwise": False, "predicted_pods": 0, "cold_pods": 0} | more
    return NodeChange(name, *outcomes, Amounts(*before), Amounts(*asked), **known)


def answer(*nodes, most=0, **more):
    return diff.answer(Comparison("x", nodes, more.pop("keys", []), **more), most)


def test_the_largest_change_of_cpu_is_first_then_that_of_memory_then_the_name():
    nodes = [
        node("memory", after=(1_000, 4 * GIB)),
        node("more", after=(3_000, GIB)),
        node("b", after=(2_000, 2 * GIB)),
        node("a", after=(2_000, 2 * GIB)),
        node("less", after=(2_000, 0), before=(5_000, GIB)),
        node("most", after=(2_000, 9 * GIB)),
        node("same", after=(1_000, GIB)),
    ]
    found = answer(*nodes)
    assert [row[0] for row in found.tables[0].rows] == ["less", "more", "most", "a", "b", "memory"]
    assert found.data.changed_nodes == 6
    assert found.names == [f"node/{name}" for name in ("less", "more", "most", "a", "b", "memory")]


def test_sums_are_over_the_nodes_that_are_known_on_both_sides():
    found = answer(node("a"), node("b", after=(4_000, GIB)), node("c", before=UNKNOWN), node("d", after=UNKNOWN))
    assert found.head[1:3] == ["  Mid CPU 2.0 -> 6.0 cores (+200 %)", "  Mid memory 2.0 -> 3.0 GiB (+50 %)"]
    assert found.head[-1].endswith("are not known: c, d")


def test_keys_without_an_effect_or_a_change_are_left_out():
    def values(*given):
        return [Value(key, value, "defaults", (), effective) for key, value, effective in given]

    before = values(("a", 1, True), ("b", True, True), ("c", 1, False))
    after = values(("a", 1, True), ("b", False, True), ("c", 2, False), ("d", 3, True))
    keys = diff.key_changes(before, after)
    assert [(each.key, each.before, each.after) for each in keys] == [("b", True, False), ("d", None, 3)]
    table = answer(keys=keys).tables[-1]
    assert [tuple(row) for row in table.rows] == [
        ("b", "true", "false", "defaults"), ("d", "not set", "3", "defaults"),
    ]  # fmt: skip

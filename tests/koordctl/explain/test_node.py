"""`koordctl explain node` and `explain config` on a small cluster."""

import json
import re

import pytest

from api_types.colocation import document as colocation_document
from koordctl import __main__ as koordctl
from manager.node_metric import spec
from manager.slo_config import strategy
from tests.fleet import cluster
from tests.koordctl.serving import METRICS, healthy, kubeconfig_of

TERMS = {
    "allocatable": 15_500, "capacity": 16_000, "reclaimRatioPercent": 100, "peakProd": 5_550, "reclaimable": 9_200,
    "thresholdPercent": 60, "cap": 9_300, "unallocated": 750, "unallocatedPercent": 30, "unallocatedShare": 225,
    "unused": 10_800, "calculated": 9_423, "floor": 7_200,
}  # fmt: skip


def cluster_of(node=None, metric=None, **changes):
    node = node or cluster.node(annotations=cluster.mid_status(**TERMS))
    objects = {"/api/v1/nodes/worker-1": node, f"{METRICS}/worker-1": metric or cluster.metric()}
    return healthy(nodes=cluster.listing(node), stored={"metadata": {}}) | objects | changes


@pytest.fixture
def explain(tmp_path, capsys):
    def run(*words, routes=None):
        with kubeconfig_of(tmp_path, **(routes or cluster_of())) as file:
            code = koordctl.main(["explain", *words, "--kubeconfig", str(file)])
        return code, *capsys.readouterr()

    return run


def rows_of(text, resource="CPU cores"):
    return [line.removeprefix(resource) for line in text.splitlines() if line.startswith(resource)]


def test_the_sum_of_a_node_has_every_term_with_its_key_and_layer(explain):
    code, out, err = explain("node", "worker-1")
    assert (code, err) == (0, "")
    assert out.startswith("worker-1 has 9.42 cores of Mid CPU, 7.20 cores of it requested; 10.00 GiB of Mid memory")
    rows = [row.replace("█", "").split() for row in rows_of(out)]
    assert [(row[0], next(word for word in row if "." in word)) for row in rows] == [
        ("Prod", "14.75"), ("-", "5.55"), ("=", "9.20"), ("at", "9.30"), ("+", "0.23"), ("at", "10.80"), ("=", "9.42"),
        ("at", "7.20"), ("=", "9.42"),
    ]  # fmt: skip
    assert "midCPUThresholdPercent, defaults; does not bind" in out
    assert "n-sigma-v2, 2 cold pods; NodeMetric status.prodPeakMetric" in out


def test_borrowed_pods_and_the_end_of_learning_are_named(explain):
    level = {"cpu": "n-sigma-v2", "memory": "n-sigma-v2", "until": "2026-11-23T07:30:00Z"}
    counts = {"warmPods": 20, "borrowedPods": 3, "coldPods": 0}
    metric = cluster.metric(prediction={"predictor": "calibrated", "level": level, **counts})
    _, out, _ = explain("node", "worker-1", routes=cluster_of(metric=metric))
    assert "calibrated, 3 borrowed pods, not alone in force until 2026-11-23 07:30 UTC; NodeMetric status" in out


@pytest.mark.parametrize(("system", "split"), [("1860m", ["3.69", "1.86"]), ("9", ["0.00", "5.55"])])
def test_the_peak_is_split_into_pods_and_what_runs_outside_of_them(system, split, explain):
    terms = {"systemPeak": {"cpu": system, "memory": "1Gi"}}
    _, out, _ = explain("node", "worker-1", routes=cluster_of(metric=cluster.metric(prediction={"prod": terms})))
    rows = [line for line in out.splitlines() if "of it:" in line]
    assert [re.findall(r"\d+\.\d\d", row) for row in rows] == [[amount] for amount in split]
    assert "outside of pods, not reserved" in rows[1]


def test_bars_have_one_scale_and_no_bound_has_one(explain):
    _, out, _ = explain("node", "worker-1")
    bars = {re.split(r"\s{3,}", row.strip())[0]: row.count("█") for row in rows_of(out)}
    assert max(bars.values()) == bars["Prod pods request"] == 16
    assert bars["- predicted peak of Prod"] == round(16 * 5.55 / 14.75)
    assert [row.count("█") for row in rows_of(out) if "at most" in row or "at least" in row] == [0, 0, 0]


def test_the_ratio_of_the_requests_that_count_is_shown_without_a_bar(explain):
    node = cluster.node(annotations=cluster.mid_status(**{**TERMS, "reclaimRatioPercent": 60}))
    _, out, _ = explain("node", "worker-1", routes=cluster_of(node))
    (row,) = [row for row in rows_of(out) if "counted of that: 60 %" in row]
    assert "8.85" in row.split()  # 60 % of 14.75 cores
    assert "█" not in row


def test_a_bound_that_binds_is_named(explain):
    bound = {**TERMS, "thresholdPercent": 40, "cap": 6_200, "calculated": 6_425}
    node = cluster.node(annotations=cluster.mid_status(**bound))
    config = {"metadata": {}, "data": {"colocation-config": '{"enable": true, "midCPUThresholdPercent": 40}'}}
    _, out, _ = explain("node", "worker-1", routes=cluster_of(node, config=config))
    assert "midCPUThresholdPercent, cluster strategy; binds" in out
    assert "midFloor, defaults; binds" in out


@pytest.mark.parametrize(
    ("terms", "wanted"),
    [
        ({"source": "static", "staticPercent": 20, "reclaimable": 3_200, "thresholdPercent": 50, "cap": 8_000},
         ["20 % of the capacity", "at most 50 % of the capacity"]),
        ({"source": "reported", "reclaimable": 4_000}, ["reclaimable"]),
        ({"source": "none", "reclaimable": 0, "calculated": 0, "floor": 500}, ["at least the floor"]),
    ],
)  # fmt: skip
def test_other_sources_of_the_reclaimable_term_are_explained(explain, terms, wanted):
    node = cluster.node(annotations=cluster.mid_status(**terms))
    code, out, _ = explain("node", "worker-1", routes=cluster_of(node))
    assert code == 0
    assert all(any(text in row for row in rows_of(out)) for text in wanted)


def test_a_node_without_mid_resources_has_its_reason(explain):
    routes = cluster_of(cluster.node(mid_cpu=None), cluster.metric(policy={"enable": False}))
    code, out, _ = explain("node", "worker-1", routes=routes)
    assert code == 0
    assert "ColocationDisabled" in out
    assert rows_of(out) == []


def test_the_json_has_every_term(explain):
    _, out, _ = explain("node", "worker-1", "-o", "json")
    found = json.loads(out)
    terms = {each["term"]: each["value"] for each in found["resources"]["kubernetes.io/mid-cpu"]["terms"]}
    assert TERMS.items() <= terms.items()
    assert found["resources"]["kubernetes.io/mid-cpu"]["published"] == 9_423


@pytest.mark.parametrize("words", [("node", "gone"), ("config", "gone")])
def test_a_node_that_does_not_exist_is_a_no(explain, words):
    missing = {"kind": "Status", "reason": "NotFound", "message": 'nodes "gone" not found', "code": 404,
               "details": {"name": "gone", "kind": "nodes"}}  # fmt: skip
    code, out, err = explain(*words, routes=cluster_of() | {"/api/v1/nodes/gone": (missing, 404)})
    assert (code, out) == (1, "")
    assert "404 NotFound" in err


def test_an_empty_name_is_wrong_usage(explain):
    assert explain("node", "")[0] == 2


def test_without_the_right_for_the_configuration_the_layers_are_missing(explain):
    routes = cluster_of()
    del routes["config"]
    code, out, err = explain("node", "worker-1", routes=routes)
    assert code == 0
    assert "midCPUThresholdPercent; does not bind" in out
    assert "not read: configmaps/slo-controller-config" in err


def test_the_strategy_of_a_node_has_the_layer_of_each_value(explain):
    labels = {"node.koordinator.sh/cpu-reclaim-ratio": "0.5"}
    code, out, _ = explain("config", "worker-1", routes=cluster_of(cluster.node(labels=labels)))
    assert code == 0
    assert out.startswith("node worker-1: takes part in colocation\n")
    assert "enable " in out
    assert "cluster strategy, instead of false (defaults)" in out
    assert "the spec of the NodeMetric differs in " in out


def test_the_strategy_of_the_cluster_needs_no_node(explain):
    code, out, _ = explain("config")
    assert code == 0
    assert out.startswith("a node without labels and annotations: takes part in colocation\n")


def test_a_draft_is_explained_in_place_of_the_document(explain, tmp_path):
    draft = tmp_path / "draft.json"
    draft.write_text('{"enable": false}')
    code, out, _ = explain("config", "worker-1", "--config", str(draft))
    assert code == 0
    assert "takes no part in colocation" in out
    assert "applied, the document would change in the spec of the NodeMetric: " in out
    assert explain("config", "--config", str(tmp_path / "none"))[0] == 2


def test_an_invalid_document_without_an_earlier_one_is_a_no(explain):
    config = {"metadata": {}, "data": {"colocation-config": "{"}}
    code, out, _ = explain("config", "worker-1", routes=cluster_of(config=config))
    assert code == 1
    assert "undecided: no valid configuration exists" in out


def test_the_last_good_document_is_explained_under_an_invalid_one(explain):
    config = {"metadata": {}, "data": {"colocation-config": "{"}}
    stored = {"metadata": {}, "data": {"colocation-config": '{"enable": true, "degradeTimeMinutes": 7}'}}
    code, out, _ = explain("config", "worker-1", routes=cluster_of(config=config, stored=stored))
    assert code == 0
    assert "refused, the last good configuration stays in force" in out
    assert "cluster strategy, instead of 15 (defaults)" in out


def test_the_written_spec_is_compared_and_a_draft_previewed(explain, tmp_path):
    document = {"enable": True}
    configured = strategy.configuration(colocation_document.read_config(json.dumps(document)).config)
    written = spec.for_node(strategy.Strategies(configured).merged({}, {})).to_wire()
    metric = cluster.metric() | {"spec": {**written, "theirs": 1}}
    config = {"metadata": {}, "data": {"colocation-config": json.dumps(document)}}
    routes = cluster_of(config=config) | {f"{METRICS}/worker-1": metric}
    assert "the spec of the NodeMetric is the same\n" in explain("config", "worker-1", routes=routes)[1]
    draft = tmp_path / "draft.json"
    for changes, differs in (({}, "nothing"), ({"degradeTimeMinutes": 3}, "midColocationPolicy.degradeTimeMinutes")):
        draft.write_text(json.dumps(document | changes))
        _, out, _ = explain("config", "worker-1", "--config", str(draft), routes=routes)
        assert f"would change in the spec of the NodeMetric: {differs}\n" in out


@pytest.mark.parametrize(("args", "is_shown"), [([], False), (["--enable-suppression"], True)])
def test_the_threshold_of_suppression_has_no_effect_where_the_agents_do_not_suppress(explain, args, is_shown):
    agent = cluster.workload("koordlet") | {"spec": {"template": {"spec": {"containers": [{"args": args}]}}}}
    _, out, _ = explain("config", routes=cluster_of(agent=cluster.listing(agent)))
    assert ("midSuppressThresholdPercent" in out) is is_shown

"""Pages of decisions that are built by hand: order, comparisons, and what is left out."""

import numpy as np
import pytest

from scheduler_plugin.decisions import explanation
from scheduler_plugin.decisions.recorder import Decision
from scheduler_plugin.framework.cycle import PluginScores
from scheduler_plugin.framework.interface import Explained
from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from scheduler_plugin.state.pod_info import PodInfo
from tests.scheduler_plugin.factories import NOW

RESOURCES = ("cpu", "memory")
GIB = 2**30


def decision(codes=(0, 0, 0, 1), scores=(30, 50, 50), scored=(0, 1, 2), node="", rows=(0, 1, 2, 3), **more):
    pod = PodInfo(uid="u", key="default/p", is_prod=True, is_pinned=False, estimate=more.pop("estimate", None), **more)
    names = [f"n{index}" for index in range(len(rows))]
    made = Decision(pod, np.array(rows), names, np.array(codes), NOW, reasons=["too hot", "closed"])
    made.updated_at = np.array([NOW - 10.0, NOW - 20.0, np.nan, NOW - 30.0][: len(rows)])
    if scores is not None:
        made.nodes_scored, made.scores = np.array(scored), np.array(scores)
        made.plugin_scores = [PluginScores("a", 2, np.array(scores))]
    made.node = node
    return made


def shown(made, most_nodes=0):
    (page,) = explanation.page("default/p", [made], ["A", ""], RESOURCES, most_nodes)["decisions"]
    return page


def test_the_chosen_node_comes_first_then_those_that_passed_by_score_then_the_rejected_ones():
    page = shown(decision(node="n0"))
    assert [(each["node"], each["result"], each["score"]) for each in page["nodes"]] == [
        ("n0", "chosen", 30),
        ("n1", "passed", 50),
        ("n2", "passed", 50),
        ("n3", "rejected", None),
    ]
    assert (page["nodesAsked"], page["nodesPassed"], page["nodesLeftOut"]) == (4, 3, 0)
    assert [each["reportAgeSeconds"] for each in page["nodes"]] == [10, 20, None, 30]
    assert page["nodes"][1]["scores"] == {"a": 50}
    assert page["nodes"][1]["weights"] == {"a": 2}
    assert page["nodes"][3]["scores"] == {}


@pytest.mark.parametrize(("most", "names"), [(1, ["n0"]), (3, ["n0", "n1", "n2"]), (9, ["n0", "n1", "n2", "n3"])])
def test_a_page_has_at_most_so_many_nodes_and_counts_the_others(most, names):
    page = shown(decision(node="n0"), most)
    assert [each["node"] for each in page["nodes"]] == names
    assert page["nodesLeftOut"] == 4 - len(names)


@pytest.mark.parametrize(
    ("node", "compared"),
    [
        ("n0", "passed, score 50, 20 more than the chosen node, which kube-scheduler's own scores preferred"),
        ("n2", "passed, score 50, same score as the chosen node (tie broken by kube-scheduler)"),
        ("", "passed, score 50"),
    ],
)
def test_a_score_is_compared_with_that_of_the_chosen_node(node, compared):
    (of_n1,) = [each for each in shown(decision(node=node))["nodes"] if each["node"] == "n1"]
    assert of_n1["sentence"] == f"{compared}; report 20 s old"


def test_a_rejection_has_its_reason_and_its_plugin_if_that_is_known():
    nodes = {each["node"]: each for each in shown(decision(codes=(2, 0, 0, 1), scored=(1, 2), scores=(5, 6)))["nodes"]}
    assert (nodes["n3"]["reason"], nodes["n3"]["plugin"]) == ("too hot", "A")
    assert nodes["n3"]["sentence"] == "rejected by A: too hot; report 30 s old"
    assert (nodes["n0"]["reason"], nodes["n0"]["plugin"]) == ("closed", None)
    assert nodes["n0"]["sentence"] == "rejected: closed; report 10 s old"
    assert (nodes["n1"]["reason"], nodes["n1"]["plugin"]) == (None, None)


def test_a_node_that_passed_and_was_not_scored_is_left_out_of_the_short_list():
    nodes = {each["node"]: each for each in shown(decision(scored=(1, 2), scores=(5, 6)))["nodes"]}
    assert nodes["n0"]["result"] == "left out"
    assert nodes["n0"]["sentence"].startswith("passed, but is not on the short list of the best nodes")
    without = {each["node"]: each for each in shown(decision(scores=None))["nodes"]}
    assert (without["n0"]["result"], without["n0"]["score"]) == ("passed", None)
    assert without["n0"]["sentence"] == "passed, not scored; report 10 s old"


def test_an_unknown_node_has_no_facts():
    nodes = {each["node"]: each for each in shown(decision(rows=(-1, 1, 2, 3)))["nodes"]}
    assert nodes["n0"]["inputs"] == {}
    assert ";" not in nodes["n0"]["sentence"]


def test_the_usage_of_each_resource_is_shown_with_the_pod_and_its_limit():
    made = decision(estimate=(500, GIB), scores=None)
    columns = {
        "usage": np.array([[1500] * 4, [2 * GIB] * 4]),
        "allocatable": np.array([[4000] * 4, [8 * GIB] * 4]),
        "limitPercent": np.array([[65] * 4, [0] * 4]),
    }
    made.inputs = {"L": Explained(RESOURCES, columns)}
    (first, *_others) = shown(made)["nodes"]
    assert first["sentence"] == (
        "passed, not scored; cpu 1.5 + 0.5 of 4 = 50 %, limit 65 %, "
        "memory 2.0Gi + 1.0Gi of 8.0Gi = 38 %, report 10 s old"
    )
    assert first["inputs"]["L"]["usage"] == {"cpu": 1500, "memory": 2 * GIB}


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        (
            (FallbackLevel.MEASURED, FallbackLevel.MEASURED),
            "measured cpu 20 % of capacity, deviation 3 %, measured mem",
        ),
        ((FallbackLevel.UNKNOWN, FallbackLevel.UNKNOWN), "not measured although pods run on it, lowest score, report"),
        (
            (FallbackLevel.UNKNOWN, FallbackLevel.MEASURED),
            "cpu: not measured although pods run on it, lowest score, me",
        ),
        ((FallbackLevel.BY_REQUESTS, FallbackLevel.BY_REQUESTS), "no node is measured, scored by requests, report"),
    ],
)
def test_a_measurement_is_shown_or_what_was_used_in_its_place(levels, text):
    made = decision(scores=None)
    columns = {
        "meanPercent": np.array([[20.0] * 4, [30.0] * 4]),
        "deviationPercent": np.array([[3.0] * 4, [4.0] * 4]),
        "fallbackLevel": np.array([[int(level)] * 4 for level in levels]),
    }
    made.inputs = {"T": Explained(RESOURCES, columns), "U": Explained(RESOURCES, columns)}
    sentence = shown(made)["nodes"][0]["sentence"]
    assert text in sentence
    assert sentence.count("lowest score") <= 1, "the measurements of one plugin are enough"


def test_the_index_has_an_entry_for_each_decision():
    assert explanation.index([decision(node="n0"), decision()]) == [
        {"pod": "default/p", "at": NOW, "nodesAsked": 4, "nodesPassed": 3, "node": "n0"},
        {"pod": "default/p", "at": NOW, "nodesAsked": 4, "nodesPassed": 3, "node": None},
    ]


@pytest.mark.parametrize(
    ("node", "codes", "outcome"),
    [
        ("n0", (0, 0, 0, 0), "kube-scheduler bound the pod to n0"),
        ("", (1, 1, 1, 1), "no node passed, kube-scheduler will try again"),
        ("", (0, 1, 1, 1), "no bind call (yet)"),
    ],
)
def test_the_outcome_depends_on_the_bind_call_and_on_the_nodes_that_passed(node, codes, outcome):
    assert shown(decision(codes=codes, node=node, scores=None))["outcome"].startswith(outcome)


def test_the_facts_of_the_pod_are_shown():
    page = shown(decision(estimate=(500, GIB), mid_cpu_millis=7, mid_memory_bytes=8, waited_seconds=9.0))
    assert page["estimate"] == {"cpu": 500, "memory": GIB}
    assert page["midRequests"] == {"cpuMillis": 7, "memoryBytes": 8}
    assert page["waitedForLoadSeconds"] == 9.0
    assert shown(decision())["waitedForLoadSeconds"] is None

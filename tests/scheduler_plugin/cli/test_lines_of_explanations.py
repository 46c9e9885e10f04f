"""Texts of explain-pod and check-config."""

from scheduler_plugin.cli import explain_pod
from tests.scheduler_plugin.cli.test_check_config import PLUGINS, check

__all__ = ["check"]


def a_decision(**changes):
    return {
        "at": 1_700_000_000.0,
        "nodesPassed": 1,
        "nodesAsked": 2,
        "outcome": "kube-scheduler bound the pod to n1",
        "estimate": {"cpu": 1500, "memory": 3 * 2**20},
        "isProd": True,
        "isPinned": False,
        "nodes": [],
        "nodesLeftOut": 0,
        **changes,
    }


def lines(*decisions):
    return list(explain_pod.text({"pod": "default/web", "decisions": decisions}))


def test_the_sentences_of_nodes_begin_in_one_column():
    nodes = [{"node": "n1", "sentence": "passed"}, {"node": "node-100", "sentence": "rejected"}]
    assert lines(a_decision(nodes=nodes))[3:] == ["  n1        passed", "  node-100  rejected"]


def test_decisions_without_nodes_are_separated_by_an_empty_line():
    first = [
        "default/web, decided 2023-11-14T22:13:20Z: 1 of 2 nodes passed",
        "  kube-scheduler bound the pod to n1",
        "  the pod counts as 1.5 cores and 3Mi until it is measured, Prod",
    ]
    assert lines(a_decision(), a_decision()) == [*first, "", *first]


def test_a_resource_that_is_not_estimated_counts_as_0():
    assert lines(a_decision(estimate={}))[2] == "  the pod counts as 0 cores and 0Mi until it is measured, Prod"


def test_a_valid_configuration_is_printed_below_its_place(check, tmp_path):
    code, out, err = check(PLUGINS)
    assert (code, err) == (0, "")
    place = tmp_path / "config.yaml"
    assert out.splitlines()[0] == f"# {place} is valid; effective configuration, with every default:"

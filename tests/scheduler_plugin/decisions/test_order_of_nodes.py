import pytest

from scheduler_plugin.decisions import explanation
from tests.scheduler_plugin.decisions.test_nodes_of_a_page import decision, shown


@pytest.mark.parametrize(
    ("node", "names"),
    [
        ("", ["n3", "n2", "n1", "n0"]),
        ("n2", ["n2", "n3", "n1", "n0"]),
        ("n1", ["n1", "n3", "n2", "n0"]),
    ],
)
def test_the_chosen_node_those_that_passed_those_left_out_and_the_rejected_ones_follow_each_other(node, names):
    page = shown(decision(codes=(1, 0, 0, 0), scored=(2, 3), scores=(0, 5), node=node))
    assert [each["node"] for each in page["nodes"]] == names


def test_a_page_without_a_limit_has_every_node():
    (page,) = explanation.page("default/p", [decision()], ["A", ""], ("cpu",))["decisions"]
    assert (len(page["nodes"]), page["nodesLeftOut"]) == (4, 0)

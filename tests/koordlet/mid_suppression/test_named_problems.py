"""Texts of problems name five pods, and the number of the others."""

import dataclasses

import pytest

from tests.koordlet.mid_suppression.suppressed_node import limited
from tests.koordlet.mid_suppression.test_suppressor import Node


def stuck(name):
    pod = limited(name, 4000)
    return dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, resize_problem="Infeasible"))


@pytest.mark.parametrize(("count", "rest"), [(1, ""), (5, ""), (6, " and 1 more"), (8, " and 3 more")])
def test_five_pods_are_named_and_the_others_counted(count, rest):
    node = Node(*(stuck(f"p{number}") for number in range(count)))
    node.plan(2)
    message = dict(node.suppressor.problems())["ResizeNotDone"]
    named = ", ".join(f"shop/p{number} (Infeasible)" for number in range(min(count, 5)))
    assert message == f"the kubelet does not do the resize of {named}{rest}"

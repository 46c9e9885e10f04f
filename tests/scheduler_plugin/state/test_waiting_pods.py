"""Pods without a node, as the watch shows them."""

import msgspec

from scheduler_plugin.state.waiting_pods import WaitingPods
from tests.scheduler_plugin import factories


def followed():
    """Return the waiting pods, and the UIDs of those that left."""
    gone = []
    return WaitingPods(lambda _pod, _has_new_outcome: None, gone.append), gone


def test_a_pod_that_was_made_again_under_its_name_ends_the_one_before():
    """Such as that of a StatefulSet, where the watch has missed the deletion."""
    outcomes, gone = [], []
    waiting = WaitingPods(lambda _pod, has_new_outcome: outcomes.append(has_new_outcome), gone.append)
    first = factories.waiting_pod("web-0", scheduled="False")
    again = msgspec.structs.replace(first, metadata=msgspec.structs.replace(first.metadata, uid="uid-again"))
    for pod in (first, first, again):
        waiting.changed(pod)
    assert gone == ["uid-web-0"]
    assert outcomes == [True, False, True]
    waiting.gone("default", "web-0")
    assert gone == ["uid-web-0", "uid-again"]


def test_a_new_list_ends_the_pods_that_it_does_not_contain():
    waiting, gone = followed()
    for name in ("a", "b", "c"):
        waiting.changed(factories.waiting_pod(name))
    steps = waiting.keep({("default", "b")})
    next(steps)
    assert gone == ["uid-a"]
    list(steps)
    assert gone == ["uid-a", "uid-c"]
    assert len(waiting._shown) == 1
